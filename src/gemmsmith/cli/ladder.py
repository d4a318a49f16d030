"""The whole ladder, collected in several processes, for ``climb`` and ``report``."""

from __future__ import annotations

import datetime
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from gemmsmith import __version__
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.render.output import progress
from gemmsmith.compile.target import arch_number
from gemmsmith.errors import UsageError
from gemmsmith.explain.timing.timed import timed
from gemmsmith.gpus import GPU, gpu_named
from gemmsmith.ladder.registry import rung_named, rungs, rungs_for
from gemmsmith.problem import Problem
from gemmsmith.report.collect import CollectedRung, count_rung, rungs_of, verify_rung
from gemmsmith.report.page import write_page
from gemmsmith.report.report_model import Made, ReportModel, Sweep
from gemmsmith.report.sweep_file import recorded_sweeps
from gemmsmith.sim.device import SimDevice
from gemmsmith.store.published import published
from gemmsmith.store.results import Machine, Run
from gemmsmith.store.tuned_choice import recorded_choice

_WORKERS = 4


def collect_ladder(
    size: int, arch: str, compiler: Compiler, simulated: int, doing: str,
    then: Callable[[CollectedRung], CollectedRung] = lambda step: step, timed_for: str = "",
) -> tuple[CollectedRung, ...]:  # fmt: skip
    """Count every rung of ``arch``, and verify it on the simulator up to ``simulated``³ (0: do not verify).

    ``then`` completes each rung in this process. Rungs that the simulator cannot run are only compiled.
    ``timed_for`` names a GPU: the cycle model times each rung on it.
    """
    names = [spec.name for spec in rungs_for(arch_number(arch))]
    found: dict[str, CollectedRung] = {}
    with progress() as bar:
        task = bar.add_task(doing, total=len(names))
        for step in _in_parallel([(name, size, arch, simulated, compiler, timed_for) for name in names]):
            found[step.name] = then(step)
            bar.update(task, description=step.name, advance=1)
    return tuple(found[name] for name in names)


def _in_parallel(jobs: list[tuple[str, int, str, int, Compiler, str]]) -> Iterator[CollectedRung]:
    workers = min(_WORKERS, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(collect_rung, *job) for job in jobs]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def collect_rung(
    name: str, size: int, arch: str, simulated: int, compiler: Compiler, timed_for: str = ""
) -> CollectedRung:
    """One rung: counted, timed if a GPU is named, and verified on the simulator up to ``simulated``³ (0: not)."""
    step, spec = count_rung(name, size, arch, compiler), rung_named(name)
    if timed_for:
        found = timed(spec, spec.config(), Problem(size, size, size, dtype=spec.dtypes[0]), gpu_named(timed_for))
        step = replace(step, timed=replace(found, instructions=(), lines=found.lines[:5]))
    if not simulated or not spec.simulated:
        return step
    return replace(step, verdicts=verify_rung(SimDevice(arch), spec, simulated, compiler))


def left_out(arch: str) -> str:
    """Which rungs an architecture does not have, as a note; empty where it has all."""
    names = [spec.name for spec in rungs() if spec not in rungs_for(arch_number(arch))]
    return f"not for {arch}: {', '.join(names)}" if names else ""


def ladder_model(
    gathered: Sequence[CollectedRung], gpu: GPU, size: int, made: Made, measured: tuple[Run, ...] = (),
    recorded: tuple[Run, ...] = (), sweeps: tuple[Sweep, ...] = (),
) -> ReportModel:  # fmt: skip
    """The page's model, with published figures, and the package's own sweeps before ``sweeps``."""
    return ReportModel(
        gpu=gpu, problem=Problem(size, size, size), rungs=rungs_of(gathered, gpu), made=made, measured=measured,
        recorded=recorded, choice=recorded_choice(), published=published(), sweeps=(*recorded_sweeps(), *sweeps),
    )  # fmt: skip


def made_now(command: str, machine: Machine) -> Made:
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Made(command, date, __version__, machine)


def check_page(path: Path) -> None:
    """Refuse a page that cannot be written before anything is run."""
    if path.is_dir():
        raise UsageError(f"--html {path} is a folder", "name a file, such as report.html")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for --html")


def save_page(path: Path, model: ReportModel) -> Path:
    try:
        return write_page(path, model)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
