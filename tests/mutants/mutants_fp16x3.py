"""Mutants of fp32_tensor_fp16x3: planes and their products, the ring, the scaling, and the verdict."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial
from mutants_swizzled import BARRIER, FULL_COPY, IN_FLIGHT, LDMATRIX

RUNG = "fp32_tensor_fp16x3"
FILE, SPLIT = "24_fp32_tensor_fp16x3.cu", "split_fp16.cuh"
RING = Trial((64, 64, 96), layout="NT")  # six k-tiles in a ring of three stages

MUTANTS = (
    Mutant(
        name="fp16x3: no wait in the loop",
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
        name="fp16x3: no barrier in the loop",
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
        name="fp16x3: no commit after the last k-tile",
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
        name="fp16x3: columns of B used twice",
        rung=RUNG,
        what="the fragment that has just been multiplied is read again",
        edits=(Edit(FILE, "j + 1, step)", "j, step)"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="low term of B omitted",
        rung=RUNG,
        what="h h' instead of h l': 2^-12 of each product is missing, and h h' is added twice",
        edits=(Edit(FILE, "&b[d][1][half * 2]", "&b[d][0][half * 2]"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="low plane one row too early",
        rung=RUNG,
        what="the last row of the high plane is read as the first row of the low plane",
        edits=(Edit(FILE, "A + lda * (TRANS_A ? K : M)", "A + lda * (TRANS_A ? K : M - 1)"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="exponents of the next row",
        rung=RUNG,
        what="rows are unscaled with the exponent of the next row",
        edits=(Edit(FILE, "exponents.a[min(row + i", "exponents.a[min(row + 1 + i"),),
        trial=Trial((50, 64, 96), layout="NT", fill="graded"),
        detector="wrong result",
    ),
    Mutant(
        name="exponents of the first product for the whole batch",
        rung=RUNG,
        what="every product of a batch is unscaled with the exponents of the first",
        edits=(Edit(SPLIT, "a + (strideA == 0 ? 0ll : z) * M", "a"),),
        trial=Trial((64, 40, 64), layout="NT", batch=2),  # the largest of 64 numbers is below 2 in some lines
        detector="wrong result",
    ),
    Mutant(
        name="verdict ignored",
        rung=RUNG,
        what="operands with infinities are multiplied from their terms, which contain NaN",
        edits=(Edit(FILE, "if (K > 0 && !fp16_accepted(workspace)) return;", ""),),
        trial=Trial((64, 64, 64), fill="specials"),
        detector="wrong result",
    ),
)
