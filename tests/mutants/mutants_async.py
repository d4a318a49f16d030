"""Mutants of the asynchronous pipeline: waits, commit groups, the ring of slices, zero-filling copies."""

from __future__ import annotations

from dataclasses import replace

from mutant import Edit, Mutant, Trial

from gemmsmith.kernel.geometry import Geometry

FILE = "11_async_copy.cu"
COPY = ("cp_async.cuh", "cp.async.cg.shared.global [%0]")
FRAGMENT = ("vector.cuh", "*reinterpret_cast<const Vec<T, Width>*>(shared + i)")
WAIT = "cp_async_wait<STAGES - 2>();"
SLICES = Trial((32, 64, 48))  # six slices of a ring of three
IN_FLIGHT = "cp.async.wait_group by the copying thread, then a barrier, must come between them"


def _one_stage_less(geometry: Geometry) -> Geometry:
    return replace(geometry, smem=geometry.smem * 2 // 3)


MUTANTS = (
    Mutant(
        name="no wait for the copies",
        rung="async_copy",
        what="slices are multiplied while their copies are in flight",
        edits=(Edit(FILE, WAIT, ""),),
        trial=SLICES,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="no wait, copies land late",
        rung="async_copy",
        what="the same seen by the data: a copy lands only when it is waited for",
        edits=(Edit(FILE, WAIT, ""),),
        trial=Trial((32, 64, 48), schedule="in_order"),
        detector="uninitialised shared",
        lines=(FRAGMENT,),
    ),
    Mutant(
        name="wait_group one too lax",
        rung="async_copy",
        what="one group more than allowed may be in flight: the very slice that is multiplied",
        edits=(Edit(FILE, WAIT, "cp_async_wait<STAGES - 1>();"),),
        trial=SLICES,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="no commit",
        rung="async_copy",
        what="copies that belong to no group are waited for by nobody",
        edits=(Edit(FILE, "cp_async_commit();", ""),),
        trial=SLICES,
        detector="race",
        words=("in-flight-copy",),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="no commit without a slice left",
        rung="async_copy",
        what="waiting counts groups: without empty ones at the end, the last slices are not waited for",
        edits=(Edit(FILE, "cp_async_commit();", "if (a.cols > 0) cp_async_commit();"),),
        trial=SLICES,
        detector="race",
        words=("in-flight-copy",),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="wait after the barrier",
        rung="async_copy",
        what="a thread knows of its own copies only; the barrier must follow the wait, not precede it",
        edits=(Edit(FILE, WAIT, "__syncthreads();"), Edit(FILE, "__syncthreads();", WAIT, times=2, only=1)),
        trial=SLICES,
        detector="race",
        words=("read-after-write",),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="no barrier in the pipeline",
        rung="async_copy",
        what="a thread waits for its own copies and reads those of others",
        edits=(Edit(FILE, "__syncthreads();", ""),),
        trial=SLICES,
        detector="race",
        words=("read-after-write", "write-after-read"),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="fetch before the barrier",
        rung="async_copy",
        what="the copy overtakes threads that still read the slice it replaces",
        edits=(
            Edit(FILE, "fetch(slices[next]);", ""),
            Edit(FILE, "__syncthreads();", "fetch(slices[next]); __syncthreads();"),
        ),
        trial=SLICES,
        detector="race",
        words=("write-after-read", "asynchronous copy at cp_async.cuh"),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="buffer reused one step too early",
        rung="async_copy",
        what="the next slice is copied over the one being multiplied",
        edits=(Edit(FILE, "fetch(slices[next]);", "fetch(slices[current]);"),),
        trial=SLICES,
        detector="race",
        words=("in-flight-copy",),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="stage index off by one",
        rung="async_copy",
        what="the ring is advanced by the wrong stage: a copy lands on one that is still in flight",
        edits=(Edit(FILE, "next = current;", "next = current + 1 == STAGES ? 0 : current + 1;"),),
        trial=SLICES,
        detector="race",
        words=("in-flight-copy",),
        lines=(COPY,),
        sanitizer="racecheck",
    ),
    Mutant(
        name="tail copied instead of zero-filled",
        rung="async_copy",
        what="a copy beyond K brings four bytes of the matrix where it should bring zeros",
        edits=(Edit("cp_async.cuh", "valid ? 4 : 0", "4"),),
        trial=Trial((32, 64, 21)),
        detector="wrong result",
    ),
    Mutant(
        name="tail copied from beyond the matrix",
        rung="async_copy",
        what="the source of a masked copy is not masked, and the mask is forgotten",
        edits=(
            Edit("cp_async.cuh", "valid ? 4 : 0", "4"),
            Edit(FILE, "j < valid ? source + j : matrix.origin", "source + j"),
        ),
        trial=Trial((32, 64, 21)),
        detector="out-of-bounds",
        words=("out-of-bounds global asynchronous copy", "past the end of"),
        lines=(("cp_async.cuh", "cp.async.ca.shared.global [%0]"),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="16-byte copies of unaligned rows",
        rung="async_copy",
        what="copies of 16 bytes are taken without asking whether rows are aligned to 16",
        edits=(Edit(FILE, "if (aligned && a.holds", "if (a.holds"),),
        trial=Trial((32, 64, 48), padding=(1, 0, 0)),
        detector="misaligned",
        words=("asynchronous copy of 16 bytes",),
        lines=(COPY,),
        sanitizer="memcheck",
    ),
    Mutant(
        name="ring launched one stage short",
        rung="async_copy",
        what="the launch asks for shared memory for one stage fewer than the kernel uses",
        edits=(),
        trial=SLICES,
        detector="out-of-bounds",
        words=("out-of-bounds shared asynchronous copy", "bytes of shared memory"),
        lines=(COPY,),
        sanitizer="memcheck",
        launch=_one_stage_less,
    ),
)
