"""Mutants of fp32_tensor_fp16x3: planes and their products, the ring, powers of two, and the verdict."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial
from mutants_swizzled import BARRIER, IN_FLIGHT, LDMATRIX, WHOLE_COPY

RUNG = "fp32_tensor_fp16x3"
FILE, PARTS = "24_fp32_tensor_fp16x3.cu", "fp16_parts.cuh"
RING = Trial((64, 64, 96), layout="NT")  # six slices of a ring of three

MUTANTS = (
    Mutant(
        name="fp16x3: no wait in the loop",
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
        name="fp16x3: no barrier in the loop",
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
        name="fp16x3: no commit without a slice left",
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
        name="fp16x3: columns of B taken twice",
        rung=RUNG,
        what="the fragment that was just multiplied is read again",
        edits=(Edit(FILE, "group + 1, step)", "group, step)"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="lower part of B left out",
        rung=RUNG,
        what="h h' in place of h l': what is missing is 2^-12 of each product, and what is added is worse",
        edits=(Edit(FILE, "&b[d][1][half * 2]", "&b[d][0][half * 2]"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="lower plane a row too early",
        rung=RUNG,
        what="the last row of the upper plane is taken for the first of the lower one",
        edits=(Edit(FILE, "A + lda * (TRANS_A ? K : M)", "A + lda * (TRANS_A ? K : M - 1)"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="powers of two of the next row",
        rung=RUNG,
        what="rows are scaled back by what their neighbours were multiplied by",
        edits=(Edit(FILE, "exponents.a[min(row + i", "exponents.a[min(row + 1 + i"),),
        trial=Trial((50, 64, 96), layout="NT", fill="graded"),
        detector="wrong result",
    ),
    Mutant(
        name="the first product's powers of two for all",
        rung=RUNG,
        what="every product of a batch is scaled back as the first one is",
        edits=(Edit(PARTS, "a + (strideA == 0 ? 0ll : z) * M", "a"),),
        trial=Trial((64, 40, 64), layout="NT", batch=2),  # the largest of 64 numbers is below 2 in some lines
        detector="wrong result",
    ),
    Mutant(
        name="verdict not looked at",
        rung=RUNG,
        what="operands with infinities are multiplied from their parts, whose difference is NaN",
        edits=(Edit(FILE, "if (K > 0 && !fp16_accepted(workspace)) return;", ""),),
        trial=Trial((64, 64, 64), fill="specials"),
        detector="wrong result",
    ),
)
