"""Tasks of commands that run on several machines, in the results database: each is recorded once, when it ended.

A job is one such command: the digest of its tasks says what it is. It is open until its last task is recorded, so that
the same command goes on where a killed one stopped. The measurements of a task are written in its transaction: after a
crash there are both or neither.
"""

from __future__ import annotations

import math
import sqlite3
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from gemmsmith.store.checksums import Damage, DamagedRowError
from gemmsmith.store.database_access import insert_measurement, insert_run, read_run
from gemmsmith.store.database_errors import explained
from gemmsmith.store.database_file import chosen_path, open_for_reading, open_for_writing, patiently
from gemmsmith.store.database_rows import JOB, JOB_END, TASK
from gemmsmith.store.database_upgrade import transaction
from gemmsmith.store.results import Measurement, Run

_T = TypeVar("_T")


@dataclass(frozen=True)
class Job:
    """A command and its tasks. ``digest`` covers the tasks, ``place`` is where they run."""

    digest: str
    command: str
    gemmsmith: str
    place: str
    tasks: int
    id: str = ""
    started: str = ""


@dataclass(frozen=True)
class StoredTask:
    """A task that ended; ``result`` is its result's bytes, compressed in the database."""

    digest: str
    kind: str
    label: str
    state: str
    tries: int
    host: str
    gpu: str
    driver: str
    sm_mhz: float
    seconds: float
    result: bytes
    log: str


Recorded = tuple[StoredTask, Run | None, Sequence[Measurement]]
"""A task, and the measurements that it made, with the run that they belong to."""


class TaskJournal:
    """The jobs of one results database."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection
        self._number = 0

    @classmethod
    def open(cls, path: Path | None = None) -> TaskJournal:
        """Open or create the database; None means ``$GEMMSMITH_DB`` or the user's default."""
        where = chosen_path(path)
        return cls(where, open_for_writing(where))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> TaskJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self, job: Job, fresh: bool = False) -> tuple[Job, dict[str, StoredTask]]:
        """The job with its id, and those of its tasks that are done: an earlier one that was stopped, unless ``fresh``,
        else a new one. A damaged row counts as a task that was not done."""

        def write() -> tuple[Job, dict[str, StoredTask]]:
            found = None if fresh else self._open_job(job)
            if found is None:
                started = datetime.now(UTC).isoformat(timespec="seconds")
                new = Job(job.digest, job.command, job.gemmsmith, job.place, job.tasks, uuid.uuid4().hex, started)
                (self._number,) = self._execute("SELECT coalesce(max(number), 0) + 1 FROM job").fetchone()
                self._execute(JOB.insert, JOB.row((self._number,), JOB.values(new)))
                return new, {}
            self._number, old = found
            return old, {task.digest: task for task in self._tasks()}

        return self._transact("IMMEDIATE", write)

    def _open_job(self, job: Job) -> tuple[int, Job] | None:
        query = f"{JOB.select} WHERE digest = ? AND number NOT IN (SELECT job FROM job_end) ORDER BY number DESC"
        for row in self._execute(query, (job.digest,)).fetchall():
            with suppress(DamagedRowError):
                return int(row[0]), Job(**JOB.opened(row)[""])
        return None

    def _tasks(self) -> Iterable[StoredTask]:
        """Intact tasks of this job; damaged ones are removed, so that they can be recorded again."""
        for row in self._execute(f"{TASK.select} WHERE job = ? ORDER BY number", (self._number,)).fetchall():
            try:
                fields = TASK.opened(row)[""]
                yield StoredTask(**(fields | {"result": zlib.decompress(fields["result"])}))
            except (DamagedRowError, zlib.error):
                self._execute("DELETE FROM task WHERE number = ?", (row[0],))

    def add(self, recorded: Sequence[Recorded]) -> None:
        """Record tasks that ended, in one transaction; durable when this returns. One that is there is left alone."""

        def write() -> None:
            for task, run, measurements in recorded:
                known = self._execute("SELECT 1 FROM task WHERE job = ? AND digest = ?", (self._number, task.digest))
                if known.fetchone() is None:
                    self._insert(task)
                    if run is not None:
                        self._measured(run, measurements)

        self._transact("IMMEDIATE", write)

    def _insert(self, task: StoredTask) -> None:
        packed = StoredTask(**(vars(task) | {"result": zlib.compress(task.result, 1)}))
        (number,) = self._execute("SELECT coalesce(max(number), 0) + 1 FROM task").fetchone()
        self._execute(TASK.insert, TASK.row((number, self._number), TASK.values(packed)))

    def _measured(self, run: Run, measurements: Sequence[Measurement]) -> None:
        execute = self._connection.execute
        stored = read_run(execute, run.id, _ignore)
        if stored is None:
            stored = (insert_run(execute, run), 0, run)
        for measurement in measurements:
            stored = insert_measurement(execute, stored, measurement)

    def finish(self, failed: int) -> None:
        """All tasks are recorded: the next such command is a new job. Another command may have ended it."""
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        row = JOB_END.row((self._number,), (ended, failed))
        self._transact("IMMEDIATE", lambda: self._execute(f"{JOB_END.insert} ON CONFLICT DO NOTHING", row))

    def _execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def _transact(self, kind: str, body: Callable[[], _T]) -> _T:
        def once() -> _T:
            with transaction(self._connection, kind):
                return body()

        with explained(self.path):
            return patiently(once)


def _ignore(_: Damage) -> None:
    """A damaged run gets no more measurements: a new one begins. ``history`` names the damage."""


def expected_seconds(
    path: Path | None, tasks: Iterable[tuple[str, str]]
) -> tuple[Mapping[tuple[str, str], float], float]:
    """Mean seconds of earlier tasks by (kind, label), and of all of these kinds; NaN where none was recorded."""
    wanted = set(tasks)
    connection = open_for_reading(chosen_path(path))
    try:
        rows = connection.execute("SELECT kind, label, avg(seconds), count(*) FROM task WHERE state = 'done' "
                                  "GROUP BY kind, label").fetchall()  # fmt: skip
    finally:
        connection.close()
    kinds = {kind for kind, _ in wanted}
    ours = [(kind, label, mean, count) for kind, label, mean, count in rows if kind in kinds and mean is not None]
    total = sum(count for *_, count in ours)
    mean_of_all = sum(mean * count for *_, mean, count in ours) / total if total else math.nan
    return {(kind, label): mean for kind, label, mean, _ in ours if (kind, label) in wanted}, mean_of_all
