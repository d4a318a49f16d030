"""Mutants of mma_swizzled: fragments, the swizzle, asynchronous copies."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial

BARRIER = "__syncthreads();"
IN_FLIGHT = "cp.async.wait_group by the copying thread, then a barrier, must come between them"
FILE = "14_mma_swizzled.cu"
FULL_COPY = ("cp_async.cuh", 'cp.async.cg.shared.global [%0], [%1], 16;"')
LDMATRIX = ("ldmatrix.cuh", 'asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16')
K_TILES = Trial((64, 64, 96))  # six k-tiles

MUTANTS = (
    Mutant(
        name="swizzled: no wait for the copies",
        rung="mma_swizzled",
        what="fragments are read while their copies are in flight",
        edits=(Edit(FILE, "cp_async_wait<0>();", ""),),
        trial=K_TILES,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(FULL_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="swizzled: wait for all but the newest group",
        rung="mma_swizzled",
        what="the newest group is the one that is needed",
        edits=(Edit(FILE, "cp_async_wait<0>();", "cp_async_wait<1>();"),),
        trial=K_TILES,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(FULL_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="swizzled: no barrier after the copies",
        rung="mma_swizzled",
        what="a thread waits for its own copies, and ldmatrix reads those of other threads",
        edits=(Edit(FILE, BARRIER, "", times=2, only=0),),
        trial=K_TILES,
        detector="race",
        words=("read-after-write",),
        lines=(FULL_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="swizzled: no barrier before the next copies",
        rung="mma_swizzled",
        what="the next k-tile is copied over one that other threads still read",
        edits=(Edit(FILE, BARRIER, "", times=2, only=1),),
        trial=K_TILES,
        detector="race",
        words=("write-after-read",),
        lines=(FULL_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="copy without the swizzle",
        rung="mma_swizzled",
        what="chunks are stored without the swizzle and read with it",
        edits=(
            Edit("swizzled_copy.cuh", "target = Tile::offset(row, chunk);", "target = row * Tile::PITCH + chunk * 16;"),
        ),
        trial=K_TILES,
        detector="wrong result",
    ),
    Mutant(
        name="swizzle period ignored by the copy",
        rung="mma_swizzled",
        what="later rows are copied as if all rows had the same swizzle",
        edits=(Edit("swizzled_copy.cuh", "PASS % Tile::SWIZZLE_PERIOD == 0 ?", "true ?"),),
        trial=Trial((256, 64, 128), mode="exact", layout="TN", dtype="int8"),
        config={"BM": 256, "WM": 128, "BK_BYTES": 128},  # a pass of 8 rows, and a swizzle that repeats after 16
        detector="wrong result",
    ),
    Mutant(
        name="offset of the second step by addition instead of XOR",
        rung="mma_swizzled",
        what="the offset of the next 32 bytes of k is added, and carries out of the swizzled bits",
        edits=(Edit("fragments.cuh", "(lane_offset ^ (bytes & 127)) + (bytes & ~127)", "lane_offset + bytes"),),
        trial=Trial((64, 64, 64), layout="NT"),
        config={"BK_BYTES": 64},
        detector="out-of-bounds",
        words=("out-of-bounds shared read of 16 bytes",),
        lines=(LDMATRIX,),
        sanitizer="memcheck",
    ),
    Mutant(
        name="ldmatrix addresses of another matrix",
        rung="mma_swizzled",
        what="lanes 8 to 15 and 16 to 23 provide each other's addresses",
        edits=(
            Edit(
                "fragments.cuh",
                "Tile::offset(first + lane % 8 + upper * 8, k_half)",
                "Tile::offset(first + lane % 8 + k_half * 8, upper)",
            ),
        ),
        trial=K_TILES,
        detector="wrong result",
    ),
    Mutant(
        name="halves of a fragment of B swapped",
        rung="mma_swizzled",
        what="the left eight columns are used for the right eight, and vice versa",
        edits=(Edit(FILE, "&b[j / 2][j % 2 * 2]", "&b[j / 2][(1 - j % 2) * 2]"),),
        trial=K_TILES,
        detector="wrong result",
    ),
    Mutant(
        name="accumulators stored two columns too far",
        rung="mma_swizzled",
        what="after the exchange a lane stores its four columns at the wrong offset",
        edits=(Edit("fragments.cuh", "8 + 2 * (q - 1)", "8 + 2 * q"),),
        trial=K_TILES,
        detector="misaligned",
    ),
    Mutant(
        name="swizzled: tail of K copied",
        rung="mma_swizzled",
        what="a chunk that extends beyond K is copied in full instead of filled with zeros",
        edits=(Edit("swizzled_copy.cuh", "valid * int(sizeof(T))", "valid ? 16 : 0"),),
        trial=Trial((64, 64, 19), padding=(5, 0, 0)),
        detector="out-of-bounds",
        words=("it starts inside A", "runs over its end"),
        lines=(("cp_async.cuh", "cp.async.cg.shared.global [%0], [%1], 16, %2;"),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="int8 outputs wrap around",
        rung="mma_swizzled",
        what="a value above 127 is truncated to eight bits instead of saturated",
        edits=(Edit("epilogue.cuh", "max(-128, min(127, __float2int_rn(value)))", "__float2int_rn(value)"),),
        trial=Trial((64, 64, 64), alpha=20.0, mode="exact", dtype="int8", out_dtype="int8"),
        detector="wrong result",
    ),
)
