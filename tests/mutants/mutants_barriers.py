"""Mutants of the order between threads: barriers left out, misplaced, or not reached by all."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial

BARRIER = "__syncthreads();"
FRAGMENT = ("vector.cuh", "*reinterpret_cast<const Vec<T, Width>*>(shared + i)")

# For each rung with two barriers a slice: its file, where slices are written, and where they are read.
TILED: dict[str, tuple[str, tuple[str, str], tuple[str, str]]] = {
    "shared_tile": (
        "03_shared_tile.cu",
        ("03_shared_tile.cu", "slice.A[m][n] = "),
        ("03_shared_tile.cu", "acc = __fmaf_rn(slice.A[m][k]"),
    ),
    "register_block": (
        "04_register_block.cu",
        ("04_register_block.cu", "slice.A[row][col] = "),
        ("04_register_block.cu", "acc[i][j] = __fmaf_rn(slice.A"),
    ),
    "block_tile_1d": (
        "05_block_tile_1d.cu",
        ("05_block_tile_1d.cu", "slice.B[i / BN][i % BN] = "),
        ("05_block_tile_1d.cu", "b_k = slice.B[k][n]"),
    ),
    "block_tile_2d": (
        "06_block_tile_2d.cu",
        ("06_block_tile_2d.cu", "slice.A[m][k] = "),
        ("06_block_tile_2d.cu", "a_k[i] = slice.A"),
    ),
    "vectorized": ("07_vectorized.cu", ("07_vectorized.cu", "slice.A[k + j][m] = "), FRAGMENT),
    "padded": ("08_padded.cu", ("08_padded.cu", "slice.A[k + j][m] = "), FRAGMENT),
    "rectangular": ("09_rectangular.cu", ("09_rectangular.cu", "(&slice.A[m][k]) = load_vector"), FRAGMENT),
    "warp_tile": ("10_warp_tile.cu", ("10_warp_tile.cu", "slice.A[k + j][m] = "), FRAGMENT),
    "warp_tile_mixed": ("12_warp_tile_mixed.cu", ("12_warp_tile_mixed.cu", "slice.A[k + j][m] = "), FRAGMENT),
}
SLICES = Trial((32, 64, 64))  # several slices of every small configuration


def _tiled(rung: str) -> tuple[Mutant, Mutant]:
    file, write, read = TILED[rung]
    return (
        Mutant(
            name=f"{rung}: no barrier after the loads",
            rung=rung,
            what="a thread multiplies what others have not loaded yet",
            edits=(Edit(file, BARRIER, "", times=2, only=0),),
            trial=SLICES,
            detector="race",
            words=("read-after-write", "a __syncthreads() must come between them"),
            lines=(write, read),
            sanitizer="racecheck",
        ),
        Mutant(
            name=f"{rung}: no barrier before the overwrite",
            rung=rung,
            what="a thread loads the next slice over one that others still read",
            edits=(Edit(file, BARRIER, "", times=2, only=1),),
            trial=SLICES,
            detector="race",
            words=("write-after-read", "a __syncthreads() must come between them"),
            lines=(write, read),
            sanitizer="racecheck",
        ),
    )


MISSING = tuple(mutant for rung in TILED for mutant in _tiled(rung))

MISPLACED = (
    Mutant(
        name="no barrier after the loads, a warp runs ahead",
        rung="block_tile_2d",
        what="the same without a race detector: the first warp reads what nobody has written",
        edits=(Edit("06_block_tile_2d.cu", BARRIER, "", times=2, only=0),),
        trial=Trial((32, 32, 16), schedule="in_order"),
        detector="uninitialised shared",
        lines=(("06_block_tile_2d.cu", "a_k[i] = slice.A"),),
    ),
    Mutant(
        name="only a warp-wide barrier after the loads",
        rung="block_tile_2d",
        what="__syncwarp() orders the threads of one warp, but slices come from all warps",
        edits=(Edit("06_block_tile_2d.cu", BARRIER, "__syncwarp();", times=2, only=0),),
        trial=SLICES,
        detector="race",
        words=("read-after-write", "a __syncthreads() must come between them"),
        sanitizer="racecheck",
    ),
    Mutant(
        name="barrier in a divergent branch",
        rung="shared_tile",
        what="only threads inside C wait for the slice; the others wait elsewhere",
        edits=(Edit("03_shared_tile.cu", BARRIER, "if (c.inside(m, n)) __syncthreads();", times=2, only=0),),
        trial=Trial((5, 8, 16)),
        detector="divergent barrier",
        words=("threads of one block wait at different __syncthreads()", "40 threads at 03_shared_tile.cu"),
        sanitizer="synccheck",
    ),
    Mutant(
        name="half of the threads skip the barrier",
        rung="padded",
        what="the barrier stands in a branch that half of each block takes",
        edits=(Edit("08_padded.cu", BARRIER, "if (threadIdx.x < THREADS / 2) __syncthreads();", times=2, only=1),),
        trial=SLICES,
        detector="divergent barrier",
        sanitizer="synccheck",
    ),
    Mutant(
        # The barrier itself is legal: since Volta it waits for threads that have not exited. What is wrong is that
        # those who left were to load rows of B.
        name="early return of threads outside C",
        rung="shared_tile",
        what="threads below the last row return before they have loaded their part of B",
        edits=(Edit("03_shared_tile.cu", "float acc = 0.0f;", "if (!c.inside(m, n)) return; float acc = 0.0f;"),),
        trial=Trial((5, 8, 16)),
        detector="uninitialised shared",
        lines=(("03_shared_tile.cu", "acc = __fmaf_rn(slice.A[m][k]"),),
    ),
)

MUTANTS = (*MISSING, *MISPLACED)
