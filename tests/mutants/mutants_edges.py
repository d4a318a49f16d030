"""Mutants of the edges: unmasked tails, one element too far, alignment, strides, launches that are too small."""

from __future__ import annotations

from dataclasses import replace

from mutant import Edit, Mutant, Trial

from gemmsmith.kernel.geometry import Geometry


def _one_block_short(geometry: Geometry) -> Geometry:
    return replace(geometry, grid=(geometry.grid[0] - 1, 1, 1))


def _one_row_short(geometry: Geometry) -> Geometry:
    return replace(geometry, smem=geometry.smem - 4 * 32)


TAILS = (
    Mutant(
        name="unmasked tail in M",
        rung="shared_tile",
        what="rows below the last are stored",
        edits=(Edit("03_shared_tile.cu", "if (c.inside(m, n)) store", "if (n < c.cols) store"),),
        trial=Trial((13, 8, 8)),
        detector="out-of-bounds",
        words=("out-of-bounds global write of 4 bytes",),
        lines=(("linear_combination.cuh", "*c = "),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="unmasked tail in N",
        rung="shared_tile",
        what="columns right of the last are stored, over the next row and past the end of C",
        edits=(Edit("03_shared_tile.cu", "if (c.inside(m, n)) store", "if (m < c.rows) store"),),
        trial=Trial((7, 5, 8)),
        detector="out-of-bounds",
        words=("out-of-bounds global write of 4 bytes",),
        sanitizer="memcheck",
    ),
    Mutant(
        name="unmasked tail in N, except in the last row",
        rung="shared_tile",
        what="the last row is masked, so nothing is out of bounds, but the padding between rows is overwritten",
        edits=(
            Edit("03_shared_tile.cu", "if (c.inside(m, n)) store", "if (c.inside(m, m + 1 < c.rows ? 0 : n)) store"),
        ),
        trial=Trial((7, 5, 8), padding=(0, 0, 8)),
        detector="damage",
        words=("of the padding between rows overwritten, the first at row 0, column 5",),
    ),
    Mutant(
        name="unmasked tail in K",
        rung="block_tile_1d",
        what="A is read right of its last column",
        edits=(
            Edit(
                "05_block_tile_1d.cu",
                "a.inside(a_row + i, a_col) ? ",
                "a_row + i < a.rows ? ",
            ),
        ),
        trial=Trial((20, 24, 13)),
        detector="out-of-bounds",
        words=("out-of-bounds global read of 4 bytes", "past the end of"),
        lines=(("05_block_tile_1d.cu", "k_tile.A[a_row + i][a_col] = "),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="unmasked tail in K, padded rows",
        rung="register_block",
        what="the same within A's padding: elements after K are multiplied",
        edits=(
            Edit("04_register_block.cu", "a.get_or_zero(row, col)", "(row + 1 < a.rows ? *a.at(row, col) : 0.0f)"),
            Edit("04_register_block.cu", "b.get_or_zero(row, col)", "(col < b.cols ? *b.at(row % b.rows, col) : 0.0f)"),
        ),
        trial=Trial((17, 16, 13), padding=(3, 0, 0)),
        detector="wrong result",
        words=("outputs are NaN and should not be", "an operand was read outside its rows"),
    ),
    Mutant(
        name="elements outside the matrix not zero",
        rung="shared_tile",
        what="outside the matrix a k-tile holds another element instead of zero",
        edits=(Edit("window.cuh", "*at(row, col) : T(0.0f)", "*at(row, col) : *origin"),),
        trial=Trial((8, 8, 13)),
        detector="wrong result",
    ),
    Mutant(
        name="vector tail filled with ones",
        rung="padded",
        what="the guarded vector load fills with 1 beyond K: visible only if K is not a multiple of BK",
        edits=(Edit("window.cuh", "source[j] : T(0.0f)", "source[j] : T(1.0f)"),),
        trial=Trial((32, 32, 13)),
        detector="wrong result",
    ),
    Mutant(
        name="rows not masked in the guarded vector load",
        rung="vectorized",
        what="the guard checks columns only",
        edits=(Edit("window.cuh", "row < matrix.rows ? matrix.cols - col : 0", "matrix.cols - col"),),
        trial=Trial((20, 32, 16)),
        detector="out-of-bounds",
        words=("out-of-bounds global read",),
        lines=(("window.cuh", "source[j] : T(0.0f)"),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="unguarded store at the edge",
        rung="rectangular",
        what="the unguarded store is used without checking that the tile is inside C",
        edits=(Edit("09_rectangular.cu", "vectors_fit<VEC>(C, ldc) && c.holds(BM, BN)", "vectors_fit<VEC>(C, ldc)"),),
        trial=Trial((20, 64, 16)),
        detector="out-of-bounds",
        words=("out-of-bounds global write of 16 bytes",),
        sanitizer="memcheck",
    ),
    Mutant(
        name="unguarded load at the edge",
        rung="warp_tile",
        what="the unguarded load checks A only",
        edits=(Edit("10_warp_tile.cu", "a.holds(BM, BK) && b.holds(BK, BN)", "a.holds(BM, BK)"),),
        trial=Trial((64, 20, 16)),
        detector="out-of-bounds",
        words=("out-of-bounds global read of 16 bytes",),
        sanitizer="memcheck",
    ),
)

ONE_TOO_FAR = (
    Mutant(
        name="one step of k too many",
        rung="coalesced",
        what="the loop over k runs one step too far",
        edits=(Edit("02_coalesced.cu", "k < K", "k <= K"),),
        trial=Trial((8, 8, 8)),
        detector="out-of-bounds",
        words=("out-of-bounds global read of 4 bytes", "0 bytes past the end of B (256 bytes)"),
        sanitizer="memcheck",
    ),
    Mutant(
        name="one row too many",
        rung="naive",
        what="the guard admits the row after the last",
        edits=(Edit("01_naive.cu", "row >= M", "row > M"),),
        trial=Trial((7, 8, 8)),
        detector="out-of-bounds",
        words=("0 bytes past the end of A (224 bytes)",),
        sanitizer="memcheck",
    ),
    Mutant(
        name="one element stored past the last",
        rung="register_block",
        what="the guard of a row admits one column too many: in the last row it is past the end of C",
        edits=(Edit("linear_combination.cuh", "col + j < c.cols", "col + j <= c.cols"),),
        trial=Trial((15, 15, 16)),
        detector="out-of-bounds",
        words=("out-of-bounds global write of 4 bytes", "0 bytes past the end of C (900 bytes)"),
        sanitizer="memcheck",
    ),
    Mutant(
        name="one row stored past the last",
        rung="block_tile_2d",
        what="the guard of a tile admits one row too many",
        edits=(Edit("linear_combination.cuh", "row >= c.rows", "row > c.rows"),),
        trial=Trial((31, 32, 8)),
        detector="out-of-bounds",
        words=("out-of-bounds global write of 4 bytes", "0 bytes past the end of"),
        sanitizer="memcheck",
    ),
    Mutant(
        name="shared tile one row too small",
        rung="shared_tile",
        what="the k-tile of B is declared with one row less than is written",
        edits=(Edit("03_shared_tile.cu", "float B[TILE][TILE];", "float B[TILE - 1][TILE];"),),
        trial=Trial((8, 8, 8)),
        detector="out-of-bounds",
        words=("out-of-bounds shared write", "the block has 480 bytes of shared memory"),
        lines=(("03_shared_tile.cu", "k_tile.B[m][n] = "),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="dynamic shared memory one row too small",
        rung="warp_tile",
        what="the launch requests shared memory for one row of B less than the kernel uses",
        edits=(),
        trial=Trial((64, 32, 8)),
        detector="out-of-bounds",
        words=("out-of-bounds shared write", "bytes of shared memory"),
        sanitizer="memcheck",
        launch=_one_row_short,
    ),
)

STRIDES = (
    Mutant(
        name="vector loads of unaligned A",
        rung="vectorized",
        what="16-byte loads of rows that are aligned to 4 bytes",
        edits=(Edit("07_vectorized.cu", "if (aligned && a.holds", "if (a.holds"),),
        trial=Trial((32, 64, 16), padding=(1, 0, 0)),
        detector="misaligned",
        words=("misaligned global read of 16 bytes", "the address must be a multiple of 16"),
        lines=(("window.cuh", "return *reinterpret_cast<const Vec<T, Width>*>(matrix.at(row, col))"),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="vector stores to unaligned C",
        rung="warp_tile",
        what="16-byte stores to a C that is aligned to 4 bytes",
        edits=(
            Edit("10_warp_tile.cu", "c_aligned = vectors_fit<VEC>(C, ldc) && strideC % VEC == 0", "c_aligned = true"),
        ),
        trial=Trial((64, 64, 8), offsets=(0, 0, 1)),
        detector="misaligned",
        words=("misaligned global write of 16 bytes",),
        lines=(("epilogue.cuh", "*reinterpret_cast<Vec<Out, Width>*>(target) = values"),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="alignment checked for half a vector",
        rung="warp_tile_mixed",
        what="8 elements of 2 bytes are loaded at once, but alignment is checked for 4",
        edits=(Edit("12_warp_tile_mixed.cu", "vectors_fit<VEC>(A, lda)", "vectors_fit<4>(A, lda)"),),
        trial=Trial((64, 64, 32), padding=(4, 0, 0)),
        detector="misaligned",
        words=("misaligned global read of 16 bytes",),
        sanitizer="memcheck",
    ),
    Mutant(
        name="lda ignored",
        rung="naive",
        what="rows of A are assumed to be K apart",
        edits=(Edit("01_naive.cu", "A[row * lda + k]", "A[row * K + k]"),),
        trial=Trial((8, 8, 8), padding=(3, 0, 0)),
        detector="wrong result",
        words=("outputs are NaN and should not be", "an operand was read outside its rows"),
    ),
    Mutant(
        name="ldc ignored",
        rung="coalesced",
        what="rows of C are assumed to be N apart: results are written to the padding, and elsewhere",
        edits=(Edit("02_coalesced.cu", "row * ldc", "row * N"),),
        trial=Trial((8, 8, 8), padding=(0, 0, 3)),
        detector="damage",
        words=("of the padding between rows overwritten", "outputs were never written"),
    ),
    Mutant(
        name="grid one block too small",
        rung="block_tile_2d",
        what="the last tile of C has no block",
        edits=(),
        trial=Trial((72, 40, 8)),
        detector="unwritten",
        words=("64 of 2880 outputs were never written, the first at (64, 32)",),
        launch=_one_block_short,
    ),
    Mutant(
        name="tiles in column-major order",
        rung="padded",
        what="tiles are numbered in another order than the grid is sized for: correct only for a square C",
        edits=(
            Edit("tile_order.cuh", "blockIdx.x / across * Rows", "blockIdx.x % across * Rows"),
            Edit("tile_order.cuh", "blockIdx.x % across * Cols", "blockIdx.x / across * Cols"),
        ),
        trial=Trial((32, 96, 8)),
        detector="unwritten",
    ),
)

MUTANTS = (*TAILS, *ONE_TOO_FAR, *STRIDES)
