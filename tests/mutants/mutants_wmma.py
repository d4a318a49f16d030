"""Mutants of wmma: fragments in shared memory, and the epilogue that all rungs on tensor cores share."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial

BARRIER = "__syncthreads();"
FILE = "13_wmma.cu"
TILE_WRITE = (FILE, "*reinterpret_cast<Vec<IN, VEC>*>(&tile[row][col]) = ")
SLICES = Trial((64, 64, 48))

MUTANTS = (
    Mutant(
        name="wmma: no barrier after the loads",
        rung="wmma",
        what="a warp loads fragments that others have not stored yet",
        edits=(Edit(FILE, BARRIER, "", times=2, only=0),),
        trial=SLICES,
        detector="race",
        words=("read-after-write", "a __syncthreads() must come between them"),
        lines=(TILE_WRITE,),
        sanitizer="racecheck",
    ),
    Mutant(
        name="wmma: no barrier before the overwrite",
        rung="wmma",
        what="a slice is stored over one whose fragments others still load",
        edits=(Edit(FILE, BARRIER, "", times=2, only=1),),
        trial=SLICES,
        detector="race",
        words=("write-after-read", "a __syncthreads() must come between them"),
        lines=(TILE_WRITE,),
        sanitizer="racecheck",
    ),
    Mutant(
        name="sums read before the warp has stored them",
        rung="wmma",
        what="lanes take sums that other lanes are still storing to shared memory",
        edits=(Edit(FILE, "__syncwarp();", "", times=2, only=0),),
        trial=Trial((64, 64, 16)),
        detector="race",
        words=("read-after-write",),
        sanitizer="racecheck",
    ),
    Mutant(
        name="sums overwritten before the warp has read them",
        rung="wmma",
        what="the next fragment is stored over the last, which other lanes still read",
        edits=(Edit(FILE, "__syncwarp();", "", times=2, only=1),),
        trial=Trial((64, 64, 16)),
        detector="race",
        words=("write-after-read",),
        sanitizer="racecheck",
    ),
    Mutant(
        name="fragment of B loaded transposed",
        rung="wmma",
        what="rows of the tile are taken for columns",
        edits=(Edit(FILE, "Order<TRANS_B>::type", "Order<!TRANS_B>::type"),),
        trial=Trial((64, 64, 16)),
        detector="wrong result",
    ),
    Mutant(
        name="pitch of the fragment without its padding",
        rung="wmma",
        what="rows of A are taken to lie closer together than they do",
        edits=(Edit(FILE, "&shared.slice.A[m][k], A_COLS + PAD)", "&shared.slice.A[m][k], A_COLS)"),),
        trial=Trial((64, 64, 16)),
        detector="uninitialised shared",
        lines=((FILE, "wmma::load_matrix_sync(a_k[i]"),),
        sanitizer="initcheck",
    ),
    Mutant(
        name="wmma: unmasked tail",
        rung="wmma",
        what="the edge of B is loaded as if all of the tile lay inside the matrix",
        edits=(Edit(FILE, "load_tile<true, B_ROWS, B_COLS>", "load_tile<false, B_ROWS, B_COLS>"),),
        trial=Trial((64, 64, 24)),
        detector="out-of-bounds",
        words=("out-of-bounds global read",),
        lines=(("window.cuh", "return *reinterpret_cast<const Vec<T, Width>*>(matrix.at(row, col))"),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="sums begin at one",
        rung="wmma",
        what="the accumulator starts with something other than zero",
        edits=(Edit(FILE, "fill_fragment(sum, 0.0f)", "fill_fragment(sum, 1.0f)"),),
        trial=Trial((64, 64, 16)),
        detector="wrong result",
    ),
    Mutant(
        name="wmma: C read at beta = 0",
        rung="wmma",
        what="C is loaded and multiplied whatever beta is",
        edits=(
            Edit("finish.cuh", "if (finish.beta != 0.0f) {", "{"),
            Edit("finish.cuh", "if (beta != 0.0f) value = __fmaf_rn", "value = __fmaf_rn"),
        ),
        trial=Trial((64, 64, 16)),
        detector="forbidden read",
        words=("C must not be read when beta = 0",),
    ),
    Mutant(
        name="bias of the wrong row",
        rung="wmma",
        what="every block takes the biases of the first",
        edits=(Edit("finish.cuh", "BIAS == 1 ? bias + row", "BIAS == 1 ? bias"),),
        trial=Trial((80, 64, 16), bias="row"),
        detector="wrong result",
        words=("rows 64 to 79",),
    ),
    Mutant(
        name="B of the first product for the whole batch",
        rung="wmma",
        what="the stride of B is left out",
        edits=(Edit(FILE, "B += blockIdx.z * strideB;", ""),),
        trial=Trial((64, 64, 16), batch=2),
        detector="wrong result",
        words=("rows 64 to 127",),
    ),
)
