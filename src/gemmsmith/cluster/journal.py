"""What the runner records: in the results database, or nowhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from gemmsmith.cluster.task import Task, TaskResult
from gemmsmith.store.results import Measurement, Run
from gemmsmith.store.task_journal import Job, Recorded, StoredTask, TaskJournal

Measured = Callable[[Task, TaskResult, Job], tuple[Run, Sequence[Measurement]] | None]
"""The measurements that a task made, and the run that they belong to: one for each machine of a job."""


class Journal(Protocol):
    """Remembers results."""

    def begin(self, job: Job, fresh: bool = False) -> tuple[Job, dict[str, StoredTask]]: ...

    def add(self, recorded: Sequence[Recorded]) -> None: ...

    def finish(self, failed: int) -> None: ...

    def close(self) -> None: ...


class NoJournal:
    """Remembers nothing, as ``--no-db`` asks."""

    def begin(self, job: Job, fresh: bool = False) -> tuple[Job, dict[str, StoredTask]]:  # noqa: ARG002
        return job, {}

    def add(self, recorded: Sequence[Recorded]) -> None:
        pass

    def finish(self, failed: int) -> None:
        pass

    def close(self) -> None:
        pass


def stored(task: Task, result: TaskResult) -> StoredTask:
    """A result as a row."""
    machine = result.node.machine if result.node is not None else None
    return StoredTask(
        digest=result.digest, kind=task.kind, label=task.label, state=result.state, tries=result.tries,
        host=result.node.name if result.node else "", gpu=machine.gpu if machine else "",
        driver=machine.driver if machine else "", sm_mhz=result.node.sm_mhz if result.node else math.nan,
        seconds=result.seconds, result=result.to_bytes(), log=result.log,
    )  # fmt: skip


__all__ = ["Job", "Journal", "Measured", "NoJournal", "StoredTask", "TaskJournal", "stored"]
