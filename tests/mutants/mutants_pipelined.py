"""Mutants of mma_pipelined: the ring of slices, fragments a step ahead, tiles in groups, what is stored."""

from __future__ import annotations

from dataclasses import replace

from mutant import Edit, Mutant, Trial
from mutants_swizzled import BARRIER, IN_FLIGHT, LDMATRIX, WHOLE_COPY

from gemmsmith.kernel.geometry import Geometry

FILE = "15_mma_pipelined.cu"
WAIT = "cp_async_wait<STAGES - 2>();"
RING = Trial((64, 64, 192))  # six slices of a ring of three


def _one_stage_less(geometry: Geometry) -> Geometry:
    return replace(geometry, smem=geometry.smem * 2 // 3)


MUTANTS = (
    Mutant(
        name="pipelined: no wait in the loop",
        rung="mma_pipelined",
        what="the next slice is read while its copies are in flight",
        edits=(Edit(FILE, WAIT, "", times=2, only=1),),
        trial=RING,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(WHOLE_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="pipelined: wait_group one too lax",
        rung="mma_pipelined",
        what="one group more than allowed may be in flight: the very slice that is read next",
        edits=(Edit(FILE, WAIT, "cp_async_wait<STAGES - 1>();", times=2),),
        trial=RING,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(WHOLE_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="pipelined: no barrier in the loop",
        rung="mma_pipelined",
        what="a thread waits for its own copies and reads those of others",
        edits=(Edit(FILE, BARRIER, "", times=2, only=1),),
        trial=RING,
        detector="race",
        words=("read-after-write",),
        lines=(WHOLE_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="pipelined: no commit without a slice left",
        rung="mma_pipelined",
        what="waiting counts groups: without empty ones at the end, the last slices are not waited for",
        edits=(Edit(FILE, "cp_async_commit();", "if (left > 0) cp_async_commit();"),),
        trial=RING,
        detector="race",
        words=("in-flight-copy",),
        lines=(WHOLE_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="pipelined: stage index off by one",
        rung="mma_pipelined",
        what="slices are copied to where others are still on their way",
        edits=(Edit(FILE, "to = ring + (STAGES - 1) * STAGE;", "to = ring + (STAGES - 2) * STAGE;"),),
        trial=RING,
        detector="race",
        words=("in-flight-copy",),
        lines=(WHOLE_COPY,),
        sanitizer="racecheck",
    ),
    Mutant(
        name="ring wraps around one stage late",
        rung="mma_pipelined",
        what="one stage past the end of the ring is used before it begins again",
        edits=(Edit(FILE, "slice == ring + (STAGES - 1) * STAGE ? ring", "slice == ring + STAGES * STAGE ? ring"),),
        trial=RING,
        detector="out-of-bounds",
        words=("out-of-bounds shared", "bytes of shared memory"),
        sanitizer="memcheck",
    ),
    Mutant(
        name="pipelined: ring launched one stage short",
        rung="mma_pipelined",
        what="the launch asks for shared memory for one stage fewer than the kernel uses",
        edits=(),
        trial=RING,
        detector="out-of-bounds",
        words=("out-of-bounds shared asynchronous copy", "bytes of shared memory"),
        lines=(WHOLE_COPY,),
        sanitizer="memcheck",
        launch=_one_stage_less,
    ),
    Mutant(
        name="fragments read behind the last slice",
        rung="mma_pipelined",
        what="after the last slice the first fragments of a stage are read that nobody wrote",
        edits=(Edit(FILE, "k > TileA::BK ? after(from) : from", "after(from)"),),
        trial=Trial((64, 64, 32)),
        detector="uninitialised shared",
        lines=(LDMATRIX,),
        sanitizer="initcheck",
    ),
    Mutant(
        name="first fragments of the slice before",
        rung="mma_pipelined",
        what="at a slice's end the fragments of its own beginning are read again",
        edits=(Edit(FILE, "last ? next : from", "from"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="fragments read over those being multiplied",
        rung="mma_pipelined",
        what="the two sets of registers do not take turns",
        edits=(Edit(FILE, "read(1 - set,", "read(set,"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="last strip of tiles taken for a whole one",
        rung="mma_pipelined",
        what="the blocks of a strip that is lower than GROUP are dealt out as if it were not",
        edits=(Edit("grouped_order.cuh", "place % height", "place % Group"),),
        trial=Trial((130, 128, 32)),
        detector="unwritten",
    ),
    Mutant(
        name="pipelined: copies of unaligned rows",
        rung="mma_pipelined",
        what="copies of 16 bytes are taken although ALIGNED says that rows do not start there",
        edits=(Edit(FILE, "if (!ALIGNED)", "if (ALIGNED && K < 0)"),),
        trial=Trial((64, 64, 64), padding=(1, 0, 0)),
        detector="misaligned",
        words=("asynchronous copy of 16 bytes",),
        sanitizer="memcheck",
    ),
    Mutant(
        name="one output past the row",
        rung="mma_pipelined",
        what="the last column is compared with at most instead of less than",
        edits=(
            Edit(
                "finish.cuh",
                "if (!whole && j < valid) target[j] = values.at[j];",
                "if (!whole && j <= valid) target[j] = values.at[j];",
            ),
        ),
        trial=Trial((64, 62, 32), padding=(0, 0, 3)),
        detector="out-of-bounds",
        words=("out-of-bounds global write", "0 bytes past the end of C"),
        lines=(("finish.cuh", "j <= valid"),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="no activation",
        rung="mma_pipelined",
        what="the epilogue stores what gelu was to be applied to",
        edits=(Edit("finish.cuh", "activated<ACTIVATION>(value)", "value"),),
        trial=Trial((64, 64, 32), activation="gelu", bias="column"),
        detector="wrong result",
    ),
    Mutant(
        name="bias added after the activation",
        rung="mma_pipelined",
        what="silu(x) + bias instead of silu(x + bias)",
        edits=(
            Edit("finish.cuh", "if constexpr (BIAS != 0) value = __fadd_rn(value, to_float(bias));", ""),
            Edit(
                "finish.cuh",
                "convert(activated<ACTIVATION>(value), out);",
                "convert(activated<ACTIVATION>(value) + to_float(bias), out);",
            ),
        ),
        trial=Trial((64, 64, 32), activation="silu", bias="column"),
        detector="wrong result",
    ),
    Mutant(
        name="fp16 outputs cut off instead of rounded",
        rung="mma_pipelined",
        what="up to a whole unit in the last place is lost, not half of one",
        edits=(
            Edit(
                "finish.cuh",
                "__float2half_rn(value)",
                "__float2half_rn(__int_as_float(__float_as_int(value) & ~0x1FFF))",
            ),
        ),
        trial=Trial((64, 64, 32), out_dtype="fp16"),
        detector="wrong result",
    ),
)
