"""Mutants of the asynchronous pipeline: waits, commit groups, the ring of stages, zero-filling copies."""

from __future__ import annotations

from dataclasses import replace

from mutant import Edit, Mutant, Trial

from gemmsmith.kernel.geometry import Geometry

FILE = "11_async_copy.cu"
COPY = ("cp_async.cuh", 'cp.async.cg.shared.global [%0], [%1], 16;"')
FRAGMENT = ("vector.cuh", "*reinterpret_cast<const Vec<T, Width>*>(shared + i)")
WAIT = "cp_async_wait<STAGES - 2>();"
K_TILES = Trial((32, 64, 48))  # six k-tiles in a ring of three stages
IN_FLIGHT = "cp.async.wait_group by the copying thread, then a barrier, must come between them"


def _one_stage_short(geometry: Geometry) -> Geometry:
    return replace(geometry, smem=geometry.smem * 2 // 3)


MUTANTS = (
    Mutant(
        name="no wait for the copies",
        rung="async_copy",
        what="k-tiles are multiplied while their copies are in flight",
        edits=(Edit(FILE, WAIT, ""),),
        trial=K_TILES,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="no wait, delayed copies",
        rung="async_copy",
        what="the same, seen in the data as well: a copy lands only when it is waited for",
        edits=(Edit(FILE, WAIT, ""),),
        trial=Trial((32, 64, 48), schedule="in_order"),
        detector="race",
        words=("in-flight-copy", "outputs wrong"),
        lines=(FRAGMENT,),
    ),
    Mutant(
        name="wait_group allows one group too many",
        rung="async_copy",
        what="one group too many may be in flight: the k-tile that is being multiplied",
        edits=(Edit(FILE, WAIT, "cp_async_wait<STAGES - 1>();"),),
        trial=K_TILES,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="no commit",
        rung="async_copy",
        what="copies that are in no group are never waited for",
        edits=(Edit(FILE, "cp_async_commit();", ""),),
        trial=K_TILES,
        detector="race",
        words=("in-flight-copy",),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="no commit after the last k-tile",
        rung="async_copy",
        what="wait_group counts groups: without empty groups at the end, the last k-tiles are not waited for",
        edits=(Edit(FILE, "cp_async_commit();", "if (a.cols > 0) cp_async_commit();"),),
        trial=K_TILES,
        detector="race",
        words=("in-flight-copy",),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="wait after the barrier",
        rung="async_copy",
        what="a wait covers only the thread's own copies, so the barrier must follow it",
        edits=(Edit(FILE, WAIT, "__syncthreads();"), Edit(FILE, "__syncthreads();", WAIT, times=2, only=1)),
        trial=K_TILES,
        detector="race",
        words=("read-after-write",),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="no barrier in the pipeline",
        rung="async_copy",
        what="a thread waits for its own copies and reads those of other threads",
        edits=(Edit(FILE, "__syncthreads();", ""),),
        trial=K_TILES,
        detector="race",
        words=("read-after-write", "write-after-read"),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="copy started before the barrier",
        rung="async_copy",
        what="a copy overwrites a k-tile that other threads still read",
        edits=(
            Edit(FILE, "fetch(stages[next]);", ""),
            Edit(FILE, "__syncthreads();", "fetch(stages[next]); __syncthreads();"),
        ),
        trial=K_TILES,
        detector="race",
        words=("write-after-read", "asynchronous copy at cp_async.cuh"),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="stage reused one step too early",
        rung="async_copy",
        what="the next k-tile is copied over the one being multiplied",
        edits=(Edit(FILE, "fetch(stages[next]);", "fetch(stages[current]);"),),
        trial=K_TILES,
        detector="race",
        words=("in-flight-copy",),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="stage index off by one",
        rung="async_copy",
        what="the ring advances to the wrong stage: a copy is written over one that is still in flight",
        edits=(Edit(FILE, "next = current;", "next = current + 1 == STAGES ? 0 : current + 1;"),),
        trial=K_TILES,
        detector="race",
        words=("in-flight-copy",),
        lines=(COPY,),
        sanitizer="racecheck",
    ),
    Mutant(
        name="tail copied instead of zero-filled",
        rung="async_copy",
        what="a copy beyond K writes four bytes of the matrix instead of zeros",
        edits=(Edit("cp_async.cuh", "valid ? 4 : 0", "4"),),
        trial=Trial((32, 64, 21)),
        detector="wrong result",
    ),
    Mutant(
        name="tail copied from beyond the matrix",
        rung="async_copy",
        what="neither the source address nor the size of a copy beyond the matrix is masked",
        edits=(
            Edit("cp_async.cuh", "valid ? 4 : 0", "4"),
            Edit(FILE, "j < valid ? source + j : matrix.origin", "source + j"),
        ),
        trial=Trial((32, 64, 21)),
        detector="out-of-bounds",
        words=("out-of-bounds global asynchronous copy", "past the end of"),
        lines=(("cp_async.cuh", "cp.async.ca.shared.global [%0], [%1], 4, %2;"),),
        sanitizer="memcheck",
    ),
    Mutant(
        name="16-byte copies from unaligned rows",
        rung="async_copy",
        what="16-byte copies are used without checking that rows are aligned to 16 bytes",
        edits=(Edit(FILE, "if (aligned && a.holds", "if (a.holds"),),
        trial=Trial((32, 64, 48), padding=(1, 0, 0)),
        detector="misaligned",
        words=("asynchronous copy of 16 bytes",),
        lines=(COPY,),
        sanitizer="memcheck",
    ),
    Mutant(
        name="shared memory one stage too small",
        rung="async_copy",
        what="the launch requests shared memory for one stage less than the kernel uses",
        edits=(),
        trial=K_TILES,
        detector="out-of-bounds",
        words=("out-of-bounds shared asynchronous copy", "bytes of shared memory"),
        lines=(COPY,),
        sanitizer="memcheck",
        launch=_one_stage_short,
    ),
)
