"""Runs a command's tasks where ``--on`` says: progress, recording, the answer of ``--dry-run``, what failed."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from gemmsmith import errors
from gemmsmith.cli.options.on import OnOptions
from gemmsmith.cli.render.output import item, print_json, progress, say
from gemmsmith.cluster.executor import Executor
from gemmsmith.cluster.journal import Journal, NoJournal
from gemmsmith.cluster.place import LOCAL, RAY, Place
from gemmsmith.cluster.runner import Progress, Runner
from gemmsmith.cluster.sources import SourceTree
from gemmsmith.cluster.task import ANY_GPU, Task, TaskResult
from gemmsmith.compile.cache_folder import ENVIRONMENT as CACHE
from gemmsmith.errors import GemmsmithError
from gemmsmith.store.results import Measurement, Run
from gemmsmith.store.task_journal import Job, TaskJournal, expected_seconds

HANDLERS = "gemmsmith.cli.task_kinds"
_LOG_LINES = 12
Measurements = Callable[[Any], Sequence[Measurement]]


class TaskError(GemmsmithError):
    """Tasks that have no result."""


@dataclass(frozen=True)
class CommandJob:
    """A command's tasks.

    command       the words that repeat it, without ``--on``
    usual         where tasks run if ``--on`` does not say
    db            the results database; None: the user's
    recorded      whether results are recorded
    measurements  those in a task's value, which are recorded with the machine that made them
    cache_dir     folder of compiled kernels, where the user named one
    """

    command: str
    tasks: Sequence[Task]
    on: OnOptions
    usual: Place
    trees: Sequence[SourceTree] = ()
    db: Path | None = None
    recorded: bool = True
    measurements: Measurements | None = None
    cache_dir: Path | None = None
    json: bool = False
    on_result: Callable[[TaskResult], None] = field(default=lambda _: None)

    @property
    def place(self) -> Place:
        return self.on.place if self.on.named else self.usual

    def results(self) -> list[TaskResult]:
        """Of every task, in order; with ``--dry-run`` the command ends here."""
        if self.on.dry_run:
            self._say_what_would_run()
            raise typer.Exit(0)
        if not self.tasks:
            return []
        journal: Journal = TaskJournal.open(self.db) if self.recorded else NoJournal()
        try:
            executor = self._executor()
            try:
                return self._run(executor, journal)
            finally:
                executor.close()
        finally:
            journal.close()

    def _executor(self) -> Executor:
        environment = {CACHE: os.path.abspath(self.cache_dir)} if self.cache_dir is not None else {}
        gpu = self.tasks[0].gpu
        if self.place.kind == RAY:
            from gemmsmith.cluster.on_ray import RayExecutor

            return RayExecutor(self.place, HANDLERS, len(self.tasks), gpu=gpu, environment=environment)
        from gemmsmith.cluster.local import LocalExecutor

        count = min(self.place.workers, len(self.tasks))
        return LocalExecutor(count, HANDLERS, gpu=gpu, environment=environment)

    def _run(self, executor: Executor, journal: Journal) -> list[TaskResult]:
        for tree in self.trees:
            executor.share(tree)
        with progress() as bar:
            shown = bar.add_task("starting workers", total=len(self.tasks))

            def show(now: Progress) -> None:
                bar.update(shown, completed=now.done, total=now.total, description=str(now))

            def resumed(job: Job, done: int) -> None:
                say(f"goes on with the job of {job.started}: {done} of {len(self.tasks)} tasks are done "
                    "(--restart does them again)", stderr=True)  # fmt: skip

            runner = Runner(executor, journal, self._measured, show, resumed, self.on_result)
            return runner.run(self.tasks, self.command, str(self.place), self.on.restart)

    def _measured(self, _: Task, result: TaskResult, job: Job) -> tuple[Run, Sequence[Measurement]] | None:
        if self.measurements is None or result.node is None:
            return None
        found = self.measurements(result.value)
        return (run_of(result, job.id, job.started, job.command), found) if found else None

    def _say_what_would_run(self) -> None:
        known, mean = expected_seconds(self.db, ((task.kind, task.label) for task in self.tasks))
        each = [known.get((task.kind, task.label), mean) for task in self.tasks]
        guessed = sum((task.kind, task.label) not in known for task in self.tasks)
        workers = self.place.workers if self.place.kind == LOCAL else 0
        total = sum(each)
        facts = {"tasks": len(self.tasks), "place": str(self.place), "workers": workers or None,
                 "core_seconds": None if math.isnan(total) else round(total, 1),
                 "seconds": None if math.isnan(total) or not workers else round(_span(each, workers), 1),
                 "without_history": guessed}  # fmt: skip
        if self.json:
            print_json({"dry_run": facts})
            return
        say(f"{len(self.tasks)} tasks on {self.place}" + (f", {workers} at a time" if workers else ""))
        if math.isnan(total):
            say("how long they take is not known: none like them was recorded")
            return
        span = f", {_duration(_span(each, workers))} in all" if workers else " of one worker"
        unknown = f"; {guessed} tasks were never recorded and are taken as the others' mean" if guessed else ""
        say(f"about {_duration(total)} of work{span}{unknown}")


def _span(seconds: Sequence[float], workers: int) -> float:
    """How long ``workers`` need, each taking the next task when it is free."""
    ends = [0.0] * max(1, workers)
    for each in seconds:
        at = ends.index(min(ends))
        ends[at] += each
    return max(ends)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def run_of(result: TaskResult, job: str, started: str, command: str) -> Run:
    """The run that a machine's measurements of a job belong to: one for each machine, GPU and driver."""
    from gemmsmith import __version__

    assert result.node is not None
    machine = result.node.machine
    what = f"{job} {result.node.name} {machine.gpu} {machine.driver}"
    return Run(hashlib.sha256(what.encode()).hexdigest()[:32], started, command, __version__, machine)


def raise_failures(tasks: Sequence[Task], results: Sequence[TaskResult]) -> None:
    """Raise for tasks without a result: the error of the first as it was, where it was one of ours."""
    failed = [(task, result) for task, result in zip(tasks, results, strict=True) if not result.ok]
    if not failed:
        return
    first = failed[0][1]
    error = first.error or {}
    kind = getattr(errors, error.get("kind", ""), None)
    if isinstance(kind, type) and issubclass(kind, GemmsmithError):
        raise kind(error["message"], error["hint"])
    for _, result in failed[:3]:
        show_failure(result)
    more = f", and {len(failed) - 1} more tasks failed" if len(failed) > 1 else ""
    raise TaskError(f"{error.get('message', 'a task failed')}{more}", error.get("hint", ""))


def show_failure(result: TaskResult) -> None:
    """A failed task with the end of its log, on stderr."""
    where = f" on {result.node.name}" if result.node is not None else ""
    item(f"failed{where} after {result.tries} tries: {(result.error or {}).get('message', '')}", "red", stderr=True)
    for line in result.log.splitlines()[-_LOG_LINES:]:
        say(line, "dim", indent="  ", stderr=True)


def nodes_json(results: Sequence[TaskResult]) -> list[Mapping[str, Any]]:
    """Which node, GPU, driver and clock made each result."""
    return [
        {"node": r.node.name, "gpu": r.node.machine.gpu, "driver": r.node.machine.driver,
         "sm_mhz": None if math.isnan(r.node.sm_mhz) else r.node.sm_mhz, "seconds": round(r.seconds, 3),
         "tries": r.tries}
        for r in results if r.node is not None
    ]  # fmt: skip


def nodes_note(results: Sequence[TaskResult]) -> str:
    """The nodes in a line."""
    names = dict.fromkeys(r.node.name for r in results if r.node is not None)
    return f"{len(results)} tasks on {len(names)} node{'s' * (len(names) != 1)}: {', '.join(names)}"


def cores(most: int = 0) -> Place:
    """As many processes as there are cores, or fewer."""
    count = os.cpu_count() or 1
    return Place(LOCAL, min(count, most) if most else count)


def wants_gpu(on: OnOptions, device: str, here: Callable[[], bool]) -> bool:
    """Whether tasks run on GPUs: where ``--device`` says so or, with ``auto``, where there is one."""
    if device != "auto":
        return device == "gpu"
    if on.on_cluster:
        from gemmsmith.cluster.on_ray import has_gpu

        return has_gpu(on.place)
    return here()


def gpu_wanted(on: OnOptions) -> str:
    """What a GPU task asks for."""
    return on.gpu_kind or ANY_GPU
