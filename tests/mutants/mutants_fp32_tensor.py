"""Mutants of fp32_tensor_bf16x6: parts and their products, the ring, and sums that are not finite."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial
from mutants_swizzled import BARRIER, IN_FLIGHT, LDMATRIX, WHOLE_COPY

RUNG = "fp32_tensor_bf16x6"
FILE, PARTS, SUMS = "22_fp32_tensor_bf16x6.cu", "bf16_parts.cuh", "ieee_sums.cuh"
RING = Trial((64, 64, 96), layout="NT")  # six slices of a ring of three

MUTANTS = (
    Mutant(
        name="bf16x6: no wait in the loop",
        rung=RUNG,
        what="a slice is read while its copies are in flight",
        edits=(Edit(FILE, "cp_async_wait<STAGES - 2>();", ""),),
        trial=RING,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(WHOLE_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="bf16x6: no barrier in the loop",
        rung=RUNG,
        what="a thread waits for its own copies and reads those of others",
        edits=(Edit(FILE, BARRIER, ""),),
        trial=RING,
        detector="race",
        words=("read-after-write",),
        lines=(WHOLE_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="bf16x6: no commit without a slice left",
        rung=RUNG,
        what="waiting counts groups: without empty ones at the end, the last slices are not waited for",
        edits=(Edit(FILE, "cp_async_commit();", "if (left > 0) cp_async_commit();"),),
        trial=RING,
        detector="race",
        words=("in-flight-copy",),
        lines=(WHOLE_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="bf16x6: columns of B taken twice",
        rung=RUNG,
        what="the fragment that was just multiplied is read again",
        edits=(Edit(FILE, "group + 1, step)", "group, step)"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="five products instead of six",
        rung=RUNG,
        what="x1 y2 is left out: 2^-9 of each product",
        edits=(Edit(PARTS, "SMALL_PRODUCTS = 5;", "SMALL_PRODUCTS = 4;"),),
        trial=Trial((64, 64, 32)),
        detector="wrong result",
    ),
    Mutant(
        name="third part of A left out",
        rung=RUNG,
        what="x2 y3 in place of x3 y1: 2^-17 of each product is lost, which shows only in short sums",
        edits=(Edit(PARTS, "SMALL_A[] = {2,", "SMALL_A[] = {1,"), Edit(PARTS, "SMALL_B[] = {0,", "SMALL_B[] = {2,")),
        trial=Trial((64, 64, 2)),
        detector="wrong result",
    ),
    Mutant(
        name="neighbour left in a part",
        rung=RUNG,
        what="the upper half of a pair is taken with the bits of the lower one below it",
        edits=(Edit(PARTS, "parts[p] & 0xFFFF0000", "parts[p]"),),
        trial=Trial((64, 64, 16)),
        detector="wrong result",
    ),
    Mutant(
        name="infinities left as split",
        rung=RUNG,
        what="sums that are not finite are stored as they are: infinity minus infinity instead of infinity",
        edits=(Edit(SUMS, "if (finite == 0.0f) return;", "return;"),),
        trial=Trial((64, 64, 32), fill="specials"),
        detector="wrong result",
    ),
    Mutant(
        name="rows outside summed again",
        rung=RUNG,
        what="zeros beyond the last row, times an infinity, are NaN, and are summed again from beyond A",
        edits=(Edit(FILE, "if (!c.inside(row, col)) return 0.0f;", ""),),
        trial=Trial((50, 64, 32), fill="specials"),
        detector="out-of-bounds",
        words=("out-of-bounds global read",),
        sanitizer="memcheck",
    ),
)
