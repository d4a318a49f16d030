"""The whole ladder, collected in several processes, for ``climb`` and ``report``."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gemmsmith import __version__
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.job import CommandJob, cores, raise_failures
from gemmsmith.cli.options.on import OnOptions
from gemmsmith.cli.tasks.climb_tasks import count_tasks
from gemmsmith.cluster.codec import decode
from gemmsmith.cluster.task import LIMIT_S
from gemmsmith.compile.target import arch_number
from gemmsmith.errors import UsageError
from gemmsmith.gpus import GPU
from gemmsmith.ladder.registry import rungs, rungs_for
from gemmsmith.problem import Problem
from gemmsmith.report.collect import CollectedRung, rungs_of
from gemmsmith.report.page import write_page
from gemmsmith.report.report_model import Made, ReportModel, Sweep
from gemmsmith.report.sweep_file import recorded_sweeps
from gemmsmith.store.published import published
from gemmsmith.store.results import Machine, Run
from gemmsmith.store.tuned_choice import recorded_choice

_WORKERS = 4


def collect_ladder(
    size: int, arch: str, compiler: Compiler, simulated: int,
    then: Callable[[CollectedRung], CollectedRung] = lambda step: step,
) -> tuple[CollectedRung, ...]:  # fmt: skip
    """Count every rung of ``arch``, and verify it on the simulator up to ``simulated``³ (0: do not verify).

    ``then`` completes each rung in this process. Rungs that the simulator cannot run are only compiled.
    """
    names = rung_names(arch)
    found = {step.name: then(step) for step in _in_parallel([(n, size, arch, simulated, compiler) for n in names])}
    return tuple(found[name] for name in names)


def rung_names(arch: str) -> list[str]:
    return [spec.name for spec in rungs_for(arch_number(arch))]


def _in_parallel(jobs: list[tuple[str, int, str, int, Compiler]]) -> Iterator[CollectedRung]:
    """Rungs in any order, as they are done: several processes of this machine."""
    if not jobs:
        return
    tasks = [task for name, size, arch, simulated, _ in jobs
             for task in count_tasks([name], size, arch, simulated, LIMIT_S)]  # fmt: skip
    job = CommandJob("", tasks, OnOptions(), cores(_WORKERS), recorded=False, cache_dir=jobs[0][4].folder)
    results = job.results()
    raise_failures(tasks, results)
    for result in results:
        yield decode(CollectedRung, result.value)


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
