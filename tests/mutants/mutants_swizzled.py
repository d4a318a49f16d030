"""Mutants of mma_swizzled: fragments by hand, the swizzle, copies that are waited for at once."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial

BARRIER = "__syncthreads();"
IN_FLIGHT = "cp.async.wait_group by the copying thread, then a barrier, must come between them"
FILE = "14_mma_swizzled.cu"
WHOLE_COPY = ("tile_copy.cuh", 'cp.async.cg.shared.global [%0], [%1], 16;"')
LDMATRIX = ("mma.cuh", 'asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16')
SLICES = Trial((64, 64, 96))  # six slices

MUTANTS = (
    Mutant(
        name="swizzled: no wait for the copies",
        rung="mma_swizzled",
        what="fragments are read while their copies are in flight",
        edits=(Edit(FILE, "cp_async_wait<0>();", ""),),
        trial=SLICES,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(WHOLE_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="swizzled: wait for all but the newest group",
        rung="mma_swizzled",
        what="the newest group is the one that is needed",
        edits=(Edit(FILE, "cp_async_wait<0>();", "cp_async_wait<1>();"),),
        trial=SLICES,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(WHOLE_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="swizzled: no barrier after the copies",
        rung="mma_swizzled",
        what="a thread waits for its own copies and ldmatrix reads those of others",
        edits=(Edit(FILE, BARRIER, "", times=2, only=0),),
        trial=SLICES,
        detector="race",
        words=("read-after-write",),
        lines=(WHOLE_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="swizzled: no barrier before the overwrite",
        rung="mma_swizzled",
        what="the next slice is copied over one that others still read",
        edits=(Edit(FILE, BARRIER, "", times=2, only=1),),
        trial=SLICES,
        detector="race",
        words=("write-after-read",),
        lines=(WHOLE_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="swizzle forgotten by the copy",
        rung="mma_swizzled",
        what="chunks are stored where they would lie without a swizzle, and read where it puts them",
        edits=(Edit("tile_copy.cuh", "target = Tile::place(row, chunk);", "target = row * Tile::PITCH + chunk * 16;"),),
        trial=SLICES,
        detector="wrong result",
    ),
    Mutant(
        name="swizzle with another period on one side",
        rung="mma_swizzled",
        what="rows far below the first are copied as if the swizzle repeated every row",
        edits=(Edit("tile_copy.cuh", "PASS % Tile::MIX_PERIOD == 0 ?", "true ?"),),
        trial=Trial((256, 64, 128), mode="exact", layout="TN", dtype="int8"),
        config={"BM": 256, "WM": 128, "BK_BYTES": 128},  # a pass of 8 rows, and a swizzle that repeats after 16
        detector="wrong result",
    ),
    Mutant(
        name="second step found by addition instead of XOR",
        rung="mma_swizzled",
        what="the place of the next 32 bytes of k is a sum, which carries out of the swizzled bits",
        edits=(Edit("fragments.cuh", "(lane_offset ^ (bytes & 127)) + (bytes & ~127)", "lane_offset + bytes"),),
        trial=Trial((64, 64, 64), layout="NT"),
        config={"BK_BYTES": 64},
        detector="out-of-bounds",
        words=("out-of-bounds shared read of 16 bytes",),
        lines=(LDMATRIX,),
        sanitizer="memcheck",
    ),
    Mutant(
        name="ldmatrix given the rows of another matrix",
        rung="mma_swizzled",
        what="lanes 8 to 15 and 16 to 23 give each other's addresses",
        edits=(
            Edit(
                "fragments.cuh",
                "Tile::place(first + lane % 8 + upper * 8, k_half)",
                "Tile::place(first + lane % 8 + k_half * 8, upper)",
            ),
        ),
        trial=SLICES,
        detector="wrong result",
    ),
    Mutant(
        name="halves of a fragment of B swapped",
        rung="mma_swizzled",
        what="the left eight columns are multiplied for the right eight",
        edits=(Edit(FILE, "&b[j / 2][j % 2 * 2]", "&b[j / 2][(1 - j % 2) * 2]"),),
        trial=SLICES,
        detector="wrong result",
    ),
    Mutant(
        name="sums stored four columns too far",
        rung="mma_swizzled",
        what="what a lane has after the swap belongs to other columns than it says",
        edits=(Edit("fragments.cuh", "8 + 2 * (q - 1)", "8 + 2 * q"),),
        trial=SLICES,
        detector="misaligned",
    ),
    Mutant(
        name="swizzled: tail of K copied",
        rung="mma_swizzled",
        what="a chunk that ends beyond K is copied whole, instead of filled with zeros",
        edits=(Edit("tile_copy.cuh", "valid * int(sizeof(T))", "valid ? 16 : 0"),),
        trial=Trial((64, 64, 19), padding=(5, 0, 0)),
        detector="out-of-bounds",
        words=("it starts inside A", "runs over its end"),
        lines=(("tile_copy.cuh", "cp.async.cg.shared.global [%0], [%1], 16, %2;"),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="int8 outputs wrap around",
        rung="mma_swizzled",
        what="a sum beyond 127 is cut to eight bits instead of saturated",
        edits=(Edit("finish.cuh", "max(-128, min(127, __float2int_rn(value)))", "__float2int_rn(value)"),),
        trial=Trial((64, 64, 64), alpha=20.0, mode="exact", dtype="int8", out_dtype="int8"),
        detector="wrong result",
    ),
)
