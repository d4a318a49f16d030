"""Mutants of fp32_tensor_bf16x6: terms and their products, the ring, and accumulators that are not finite."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial
from mutants_swizzled import BARRIER, FULL_COPY, IN_FLIGHT, LDMATRIX

RUNG = "fp32_tensor_bf16x6"
FILE, SPLIT, RECOMPUTE = "22_fp32_tensor_bf16x6.cu", "split_bf16.cuh", "ieee_recompute.cuh"
RING = Trial((64, 64, 96), layout="NT")  # six k-tiles in a ring of three stages

MUTANTS = (
    Mutant(
        name="bf16x6: no wait in the loop",
        rung=RUNG,
        what="a k-tile is read while its copies are in flight",
        edits=(Edit(FILE, "cp_async_wait<STAGES - 2>();", ""),),
        trial=RING,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(FULL_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="bf16x6: no barrier in the loop",
        rung=RUNG,
        what="a thread waits for its own copies and reads those of other threads",
        edits=(Edit(FILE, BARRIER, ""),),
        trial=RING,
        detector="race",
        words=("read-after-write",),
        lines=(FULL_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="bf16x6: no commit after the last k-tile",
        rung=RUNG,
        what="wait_group counts groups: without empty groups at the end, the last k-tiles are not waited for",
        edits=(Edit(FILE, "cp_async_commit();", "if (left > 0) cp_async_commit();"),),
        trial=RING,
        detector="race",
        words=("in-flight-copy",),
        lines=(FULL_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="bf16x6: columns of B used twice",
        rung=RUNG,
        what="the fragment that has just been multiplied is read again",
        edits=(Edit(FILE, "j + 1, step)", "j, step)"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="five products instead of six",
        rung=RUNG,
        what="x1 y2 is omitted: 2^-9 of each product",
        edits=(Edit(SPLIT, "SMALL_PRODUCTS = 5;", "SMALL_PRODUCTS = 4;"),),
        trial=Trial((64, 64, 32)),
        detector="wrong result",
    ),
    Mutant(
        name="third term of A omitted",
        rung=RUNG,
        what="x2 y3 instead of x3 y1: 2^-17 of each product is lost, which is visible only for small K",
        edits=(Edit(SPLIT, "SMALL_A[] = {2,", "SMALL_A[] = {1,"), Edit(SPLIT, "SMALL_B[] = {0,", "SMALL_B[] = {2,")),
        trial=Trial((64, 64, 2)),
        detector="wrong result",
    ),
    Mutant(
        name="low half not masked",
        rung=RUNG,
        what="the high half of a packed pair is used with the bits of the low half below it",
        edits=(Edit(SPLIT, "terms[p] & 0xFFFF0000", "terms[p]"),),
        trial=Trial((64, 64, 16)),
        detector="wrong result",
    ),
    Mutant(
        name="infinities not recomputed",
        rung=RUNG,
        what="accumulators that are not finite are stored: NaN, from infinity minus infinity, instead of infinity",
        edits=(Edit(RECOMPUTE, "if (finite == 0.0f) return;", "return;"),),
        trial=Trial((64, 64, 32), fill="specials"),
        detector="wrong result",
    ),
    Mutant(
        name="rows outside C recomputed",
        rung=RUNG,
        what="zeros below the last row times an infinity are NaN, and are recomputed from beyond A",
        edits=(Edit(FILE, "if (!c.inside(row, col)) return 0.0f;", ""),),
        trial=Trial((50, 64, 32), fill="specials"),
        detector="out-of-bounds",
        words=("out-of-bounds global read",),
        sanitizer="memcheck",
    ),
)
