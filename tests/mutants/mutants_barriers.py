"""Mutants of synchronisation: barriers that are missing, misplaced, or not reached by all threads."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial

BARRIER = "__syncthreads();"
FRAGMENT = ("vector.cuh", "*reinterpret_cast<const Vec<T, Width>*>(shared + i)")

# For each rung with two barriers per k-tile: its file, where k-tiles are written, and where they are read.
TILED: dict[str, tuple[str, tuple[str, str], tuple[str, str]]] = {
    "shared_tile": (
        "03_shared_tile.cu",
        ("03_shared_tile.cu", "k_tile.A[m][n] = "),
        ("03_shared_tile.cu", "acc = __fmaf_rn(k_tile.A[m][k]"),
    ),
    "register_block": (
        "04_register_block.cu",
        ("04_register_block.cu", "k_tile.A[row][col] = "),
        ("04_register_block.cu", "acc[i][j] = __fmaf_rn(k_tile.A"),
    ),
    "block_tile_1d": (
        "05_block_tile_1d.cu",
        ("05_block_tile_1d.cu", "k_tile.B[b_row + i][b_col] = "),
        ("05_block_tile_1d.cu", "b_k = k_tile.B[k][n]"),
    ),
    "block_tile_2d": (
        "06_block_tile_2d.cu",
        ("06_block_tile_2d.cu", "k_tile.A[m][k] = "),
        ("06_block_tile_2d.cu", "a_k[i] = k_tile.A"),
    ),
    "vectorized": ("07_vectorized.cu", ("07_vectorized.cu", "k_tile.A[k + j][m] = "), FRAGMENT),
    "padded": ("08_padded.cu", ("08_padded.cu", "k_tile.A[k + j][m] = "), FRAGMENT),
    "rectangular": ("09_rectangular.cu", ("09_rectangular.cu", "(&k_tile.A[m][k]) = load_vector"), FRAGMENT),
    "warp_tile": ("10_warp_tile.cu", ("10_warp_tile.cu", "k_tile.A[k + j][m] = "), FRAGMENT),
    "warp_tile_mixed": ("12_warp_tile_mixed.cu", ("12_warp_tile_mixed.cu", "k_tile.A[k + j][m] = "), FRAGMENT),
}
K_TILES = Trial((32, 64, 64))  # several k-tiles in every small configuration


def _tiled(rung: str) -> tuple[Mutant, Mutant]:
    file, write, read = TILED[rung]
    return (
        Mutant(
            name=f"{rung}: no barrier after the loads",
            rung=rung,
            what="a thread multiplies elements that other threads have not loaded yet",
            edits=(Edit(file, BARRIER, "", times=2, only=0),),
            trial=K_TILES,
            detector="race",
            words=("read-after-write", "a __syncthreads() must come between them"),
            lines=(write, read),
            sanitizer="racecheck",
        ),
        Mutant(
            name=f"{rung}: no barrier before the next loads",
            rung=rung,
            what="a thread loads the next k-tile over one that other threads still read",
            edits=(Edit(file, BARRIER, "", times=2, only=1),),
            trial=K_TILES,
            detector="race",
            words=("write-after-read", "a __syncthreads() must come between them"),
            lines=(write, read),
            sanitizer="racecheck",
        ),
    )


MISSING = tuple(mutant for rung in TILED for mutant in _tiled(rung))

MISPLACED = (
    Mutant(
        name="no barrier after the loads, one warp first",
        rung="block_tile_2d",
        what="the same, seen in the data as well: the first warp reads unwritten memory",
        edits=(Edit("06_block_tile_2d.cu", BARRIER, "", times=2, only=0),),
        trial=Trial((32, 32, 16), schedule="in_order"),
        detector="race",
        words=("read-after-write", "outputs wrong"),
        lines=(("06_block_tile_2d.cu", "a_k[i] = k_tile.A"),),
    ),
    Mutant(
        name="only a warp-wide barrier after the loads",
        rung="block_tile_2d",
        what="__syncwarp() orders the threads of one warp, but all warps load the k-tile",
        edits=(Edit("06_block_tile_2d.cu", BARRIER, "__syncwarp();", times=2, only=0),),
        trial=K_TILES,
        detector="race",
        words=("read-after-write", "a __syncthreads() must come between them"),
        sanitizer="racecheck",
    ),
    Mutant(
        name="barrier in a divergent branch",
        rung="shared_tile",
        what="only threads inside C wait at this barrier; the others wait at the next one",
        edits=(Edit("03_shared_tile.cu", BARRIER, "if (c.inside(m, n)) __syncthreads();", times=2, only=0),),
        trial=Trial((5, 8, 16)),
        detector="divergent barrier",
        words=("threads of one block wait at different __syncthreads()", "40 threads at 03_shared_tile.cu"),
        sanitizer="synccheck",
    ),
    Mutant(
        # Whole warps may meet at different barriers; here they meet at the wrong ones.
        name="half of the threads skip the barrier",
        rung="padded",
        what="the barrier is in a branch that only half of the block takes",
        edits=(Edit("08_padded.cu", BARRIER, "if (threadIdx.x < THREADS / 2) __syncthreads();", times=2, only=1),),
        trial=K_TILES,
        detector="race",
        words=("write-after-read", "a __syncthreads() must come between them"),
        sanitizer="synccheck",
    ),
    Mutant(
        # The barrier itself is legal: since Volta it waits only for threads that have not exited. The error is that the
        # threads that exited should have loaded rows of B.
        name="early return of threads outside C",
        rung="shared_tile",
        what="threads below the last row return before loading their share of B",
        edits=(Edit("03_shared_tile.cu", "float acc = 0.0f;", "if (!c.inside(m, n)) return; float acc = 0.0f;"),),
        trial=Trial((5, 8, 16)),
        detector="uninitialised shared",
        lines=(("03_shared_tile.cu", "acc = __fmaf_rn(k_tile.A[m][k]"),),
    ),
)

MUTANTS = (*MISSING, *MISPLACED)
