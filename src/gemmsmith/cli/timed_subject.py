"""The predicted time of a kernel on the command line, beside what was counted."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from gemmsmith.cli.render.output import progress
from gemmsmith.cli.subject import Subject
from gemmsmith.errors import SimulationError, UnknownInstructionError, UnsupportedError
from gemmsmith.explain.comparison_rows import Row
from gemmsmith.explain.diagnosis import SPEED, Diagnosis, first_finding
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.explain.timing.timed import TIME_MODEL, Timed, timed, to_json
from gemmsmith.gpus import GPU
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.sim.timing.parameters import timed_architectures
from gemmsmith.verify.quick_check import QuickCheck

if TYPE_CHECKING:
    from gemmsmith.report.collect import CollectedRung  # pages and their templates take a third of a second

_MOST_WORKERS = 8  # a process needs up to 1 GB


def time_subject(subject: Subject, gpu: GPU, check: QuickCheck | None) -> Timed:
    """The time of a subject on ``gpu``; none for a kernel that is wrong, or compiled for another architecture."""
    if check is not None and not check.ok:
        return Timed(None, missing="the kernel is not known to be right")
    if gpu.arch not in timed_architectures():
        missing = f"machine code of sm_{gpu.arch} is not executed; counts are of the PTX"
        return Timed(None, missing=missing, counts_only=True)
    compiled = int("".join(c for c in subject.compiled.arch if c.isdigit()))
    if compiled != gpu.arch:
        return Timed(
            None, missing=f"the kernel is compiled for {subject.compiled.arch}, and {gpu.name} is sm_{gpu.arch}"
        )
    return timed(subject.spec, subject.config, subject.problem, gpu)


def with_copy_gain(found: Diagnosis, subject: Subject, gpu: GPU, time: Timed) -> Diagnosis:
    """The diagnosis with the predicted gain of the change that comes first, from the copy that has it."""
    first = first_finding(found)
    if first is None or first.copy is None or time.predicted is None:
        return found
    try:
        now = Predictor(first.copy, subject.config, subject.problem, gpu).predict()
    except (UnsupportedError, UnknownInstructionError, SimulationError):
        return found
    made = replace(first, copy_gain=time.predicted.us / now.us)
    return replace(found, findings=tuple(made if each is first else each for each in found.findings))


def time_ladder(rungs: tuple[CollectedRung, ...], size: int, gpu: GPU) -> tuple[CollectedRung, ...]:
    """Every rung with its time at ``size``³ on ``gpu``; rungs are timed by as many processes as there are cores."""
    made = []
    workers = min(_MOST_WORKERS, os.cpu_count() or 1, max(1, len(rungs)))
    with progress() as bar, ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        task = bar.add_task("timing with the cycle model", total=len(rungs))
        waiting = [pool.submit(_time_rung, step.name, size, gpu) for step in rungs]
        for step, one in zip(rungs, waiting, strict=True):
            bar.update(task, description=step.name)
            made.append(replace(step, timed=one.result()))
            bar.advance(task)
    return tuple(made)


def _time_rung(name: str, size: int, gpu: GPU) -> Timed:
    spec = rung_named(name)
    found = timed(spec, spec.config(), Problem(size, size, size, dtype=spec.dtypes[0]), gpu)
    return replace(found, instructions=())


def timed_rows(rows: tuple[Row, ...], x: Timed, y: Timed) -> tuple[Row, ...]:
    """The rows of a comparison with the cycle model's time, speed and bound."""
    one, other = x.predicted, y.predicted
    if x.counts_only or y.counts_only:
        return tuple(row for row in rows if row.section != "predicted" or row.name not in ("time, ms", "TFLOPS"))
    if one is None or other is None:
        return rows
    known: dict[str, tuple[float | str, float | str]] = {
        "time, ms": (one.us / 1e3, other.us / 1e3),
        "TFLOPS": (x.flops / one.us / 1e6, y.flops / other.us / 1e6),
        "bound by": (one.bound, other.bound),
    }
    return tuple(replace(row, left=known[row.name][0], right=known[row.name][1])
                 if row.section == "predicted" and row.name in known else row for row in rows)  # fmt: skip


def timed_json(made: dict[str, Any], found: Timed) -> dict[str, Any]:
    """JSON of a diagnosis with the time; bound and speed are the cycle model's where it has any."""
    now = found.predicted
    if found.counts_only:
        sentences = [text for i, text in enumerate(made["sentences"]) if i != SPEED]
        return made | {"seconds": None, "tflops": None, "sentences": sentences, "time": to_json(found)}
    if now is None:
        return made | {"time": to_json(found)}
    of_model = {"seconds": now.us / 1e6, "tflops": found.flops / now.us / 1e6, "bound": now.bound, "model": TIME_MODEL}
    return made | of_model | {"sentences": [*found.sentences, *made["sentences"][2:]], "time": to_json(found)}
