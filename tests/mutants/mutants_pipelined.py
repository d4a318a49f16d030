"""Mutants of mma_pipelined: the ring of stages, fragments one step ahead, grouped tile order, the epilogue."""

from __future__ import annotations

from dataclasses import replace

from mutant import Edit, Mutant, Trial
from mutants_swizzled import BARRIER, FULL_COPY, IN_FLIGHT, LDMATRIX

from gemmsmith.kernel.geometry import Geometry

FILE = "15_mma_pipelined.cu"
WAIT = "cp_async_wait<STAGES - 2>();"
RING = Trial((64, 64, 192))  # six k-tiles in a ring of three stages


def _one_stage_short(geometry: Geometry) -> Geometry:
    return replace(geometry, smem=geometry.smem * 2 // 3)


MUTANTS = (
    Mutant(
        name="pipelined: no wait in the loop",
        rung="mma_pipelined",
        what="the next k-tile is read while its copies are in flight",
        edits=(Edit(FILE, WAIT, "", times=2, only=1),),
        trial=RING,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(FULL_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="pipelined: wait_group allows one group too many",
        rung="mma_pipelined",
        what="one group too many may be in flight: the k-tile that is read next",
        edits=(Edit(FILE, WAIT, "cp_async_wait<STAGES - 1>();", times=2),),
        trial=RING,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(FULL_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="pipelined: no barrier in the loop",
        rung="mma_pipelined",
        what="a thread waits for its own copies and reads those of other threads",
        edits=(Edit(FILE, BARRIER, "", times=2, only=1),),
        trial=RING,
        detector="race",
        words=("read-after-write",),
        lines=(FULL_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="pipelined: no commit after the last k-tile",
        rung="mma_pipelined",
        what="wait_group counts groups: without empty groups at the end, the last k-tiles are not waited for",
        edits=(Edit(FILE, "cp_async_commit();", "if (left > 0) cp_async_commit();"),),
        trial=RING,
        detector="race",
        words=("in-flight-copy",),
        lines=(FULL_COPY, LDMATRIX),
        sanitizer="racecheck",
    ),
    Mutant(
        name="pipelined: stage index off by one",
        rung="mma_pipelined",
        what="k-tiles are copied into a stage whose copies are still in flight",
        edits=(Edit(FILE, "to = ring + (STAGES - 1) * STAGE_BYTES;", "to = ring + (STAGES - 2) * STAGE_BYTES;"),),
        trial=RING,
        detector="race",
        words=("in-flight-copy",),
        lines=(FULL_COPY,),
        sanitizer="racecheck",
    ),
    Mutant(
        name="ring wraps around one stage late",
        rung="mma_pipelined",
        what="one stage past the end of the ring is used before it wraps around",
        edits=(Edit(FILE, "stage == ring + (STAGES - 1) * STAGE_BYTES ?", "stage == ring + STAGES * STAGE_BYTES ?"),),
        trial=RING,
        detector="out-of-bounds",
        words=("out-of-bounds shared", "bytes of shared memory"),
        sanitizer="memcheck",
    ),
    Mutant(
        name="pipelined: shared memory one stage too small",
        rung="mma_pipelined",
        what="the launch requests shared memory for one stage less than the kernel uses",
        edits=(),
        trial=RING,
        detector="out-of-bounds",
        words=("out-of-bounds shared asynchronous copy", "bytes of shared memory"),
        lines=(FULL_COPY,),
        sanitizer="memcheck",
        launch=_one_stage_short,
    ),
    Mutant(
        name="the stage does not advance before the last k-tile",
        rung="mma_pipelined",
        what="the last k-tile's fragments are read from the stage before it",
        edits=(Edit(FILE, "k > TileA::BK ? after(from) : from", "k > 2 * TileA::BK ? after(from) : from"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="first fragments of the previous k-tile",
        rung="mma_pipelined",
        what="at the end of a k-tile its own first fragments are read again",
        edits=(Edit(FILE, "last ? next : from", "from"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="fragments read over those being multiplied",
        rung="mma_pipelined",
        what="the two sets of registers do not alternate",
        edits=(Edit(FILE, "read(1 - set,", "read(set,"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="last strip of tiles treated as full",
        rung="mma_pipelined",
        what="a strip with fewer than GROUP rows of tiles is numbered as if it had GROUP",
        edits=(Edit("grouped_order.cuh", "within % height", "within % Group"),),
        trial=Trial((130, 128, 32)),
        detector="unwritten",
    ),
    Mutant(
        name="pipelined: 16-byte copies from unaligned rows",
        rung="mma_pipelined",
        what="16-byte copies are used although ALIGNED = 0",
        edits=(Edit(FILE, "if (!ALIGNED)", "if (ALIGNED && K < 0)"),),
        trial=Trial((64, 64, 64), padding=(1, 0, 0)),
        detector="misaligned",
        words=("asynchronous copy of 16 bytes",),
        sanitizer="memcheck",
    ),
    Mutant(
        name="one output past the row",
        rung="mma_pipelined",
        what="the last column is compared with <= instead of <",
        edits=(
            Edit(
                "epilogue.cuh",
                "if (!whole && j < valid) target[j] = values.at[j];",
                "if (!whole && j <= valid) target[j] = values.at[j];",
            ),
        ),
        trial=Trial((64, 62, 32), padding=(0, 0, 3)),
        detector="out-of-bounds",
        words=("out-of-bounds global write", "0 bytes past the end of C"),
        lines=(("epilogue.cuh", "j <= valid"),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="no activation",
        rung="mma_pipelined",
        what="the epilogue does not apply gelu",
        edits=(Edit("epilogue.cuh", "activate<ACTIVATION>(value)", "value"),),
        trial=Trial((64, 64, 32), activation="gelu", bias="column"),
        detector="wrong result",
    ),
    Mutant(
        name="bias added after the activation",
        rung="mma_pipelined",
        what="silu(x) + bias instead of silu(x + bias)",
        edits=(
            Edit("epilogue.cuh", "if constexpr (BIAS != 0) value = __fadd_rn(value, to_float(bias));", ""),
            Edit(
                "epilogue.cuh",
                "convert(activate<ACTIVATION>(value), out);",
                "convert(activate<ACTIVATION>(value) + to_float(bias), out);",
            ),
        ),
        trial=Trial((64, 64, 32), activation="silu", bias="column"),
        detector="wrong result",
    ),
    Mutant(
        name="fp16 outputs truncated instead of rounded",
        rung="mma_pipelined",
        what="the error is up to one unit in the last place instead of half of one",
        edits=(
            Edit(
                "epilogue.cuh",
                "__float2half_rn(value)",
                "__float2half_rn(__int_as_float(__float_as_int(value) & ~0x1FFF))",
            ),
        ),
        trial=Trial((64, 64, 32), out_dtype="fp16"),
        detector="wrong result",
    ),
)
