"""Mutants of wmma: fragments in shared memory, and the epilogue that all tensor-core rungs share."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial

BARRIER = "__syncthreads();"
FILE = "13_wmma.cu"
TILE_WRITE = (FILE, "*reinterpret_cast<Vec<IN, VEC>*>(&tile[row][col]) = ")
K_TILES = Trial((64, 64, 48))

MUTANTS = (
    Mutant(
        name="wmma: no barrier after the loads",
        rung="wmma",
        what="a warp loads fragments that other warps have not stored yet",
        edits=(Edit(FILE, BARRIER, "", times=2, only=0),),
        trial=K_TILES,
        detector="race",
        words=("read-after-write", "a __syncthreads() must come between them"),
        lines=(TILE_WRITE,),
        sanitizer="racecheck",
    ),
    Mutant(
        name="wmma: no barrier before the next loads",
        rung="wmma",
        what="a k-tile is stored over one whose fragments other warps still load",
        edits=(Edit(FILE, BARRIER, "", times=2, only=1),),
        trial=K_TILES,
        detector="race",
        words=("write-after-read", "a __syncthreads() must come between them"),
        lines=(TILE_WRITE,),
        sanitizer="racecheck",
    ),
    Mutant(
        name="accumulators read before the warp has stored them",
        rung="wmma",
        what="lanes read accumulators that other lanes are still storing to shared memory",
        edits=(Edit(FILE, "__syncwarp();", "", times=2, only=0),),
        trial=Trial((64, 64, 16)),
        detector="race",
        words=("read-after-write",),
        sanitizer="racecheck",
    ),
    Mutant(
        name="accumulators overwritten before the warp has read them",
        rung="wmma",
        what="the next fragment is stored over one that other lanes still read",
        edits=(Edit(FILE, "__syncwarp();", "", times=2, only=1),),
        trial=Trial((64, 64, 16)),
        detector="race",
        words=("write-after-read",),
        sanitizer="racecheck",
    ),
    Mutant(
        name="fragment of B loaded transposed",
        rung="wmma",
        what="rows of the tile are read as columns",
        edits=(Edit(FILE, "Order<TRANS_B>::type", "Order<!TRANS_B>::type"),),
        trial=Trial((64, 64, 16)),
        detector="wrong result",
    ),
    Mutant(
        name="leading dimension of a fragment without its padding",
        rung="wmma",
        what="rows of A are assumed to be closer together than they are",
        edits=(Edit(FILE, "&shared.k_tile.A[m][k], A_COLS + PAD)", "&shared.k_tile.A[m][k], A_COLS)"),),
        trial=Trial((64, 64, 16)),
        detector="uninitialised shared",
        lines=((FILE, "wmma::load_matrix_sync(a_k[i]"),),
        sanitizer="initcheck",
    ),
    Mutant(
        name="wmma: unmasked tail",
        rung="wmma",
        what="the edge of B is loaded as if the whole tile were inside the matrix",
        edits=(Edit(FILE, "load_tile<true, B_ROWS, B_COLS>", "load_tile<false, B_ROWS, B_COLS>"),),
        trial=Trial((64, 64, 24)),
        detector="out-of-bounds",
        words=("out-of-bounds global read",),
        lines=(("window.cuh", "return *reinterpret_cast<const Vec<T, Width>*>(matrix.at(row, col))"),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="accumulators start at one",
        rung="wmma",
        what="the accumulator fragments are filled with 1 instead of 0",
        edits=(Edit(FILE, "fill_fragment(fragment, 0.0f)", "fill_fragment(fragment, 1.0f)"),),
        trial=Trial((64, 64, 16)),
        detector="wrong result",
    ),
    Mutant(
        name="wmma: C read at beta = 0",
        rung="wmma",
        what="C is loaded and multiplied even if beta is 0",
        edits=(
            Edit("epilogue.cuh", "if (epilogue.beta != 0.0f) {", "{"),
            Edit("epilogue.cuh", "if (beta != 0.0f) value = __fmaf_rn", "value = __fmaf_rn"),
        ),
        trial=Trial((64, 64, 16)),
        detector="forbidden read",
        words=("C must not be read when beta = 0",),
    ),
    Mutant(
        name="bias of the first block",
        rung="wmma",
        what="every block uses the bias of the first block's rows",
        edits=(Edit("epilogue.cuh", "BIAS == 1 ? bias + row", "BIAS == 1 ? bias"),),
        trial=Trial((80, 64, 16), bias="row"),
        detector="wrong result",
        words=("rows >= 64",),
    ),
    Mutant(
        name="stride of B ignored in a batch",
        rung="wmma",
        what="every product of the batch uses the first B",
        edits=(Edit(FILE, "B += blockIdx.z * strideB;", ""),),
        trial=Trial((64, 64, 16), batch=2),
        detector="wrong result",
        words=("rows >= 64",),
    ),
)
