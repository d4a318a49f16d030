"""The results database: every run with its machine and its measurements, in one SQLite file.

``begin`` and ``add`` are one transaction each: durable when they return, and atomic if the process is killed. Any
number of processes may write at once.

    with Results.open() as results:
        results.begin(run)
        results.add(run.id, measurement)

A connection belongs to the thread and process that opened it. docs/results.md describes the tables.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.store.database_file import (
    ResultsError,
    chosen_path,
    damaged,
    explained,
    open_for_reading,
    open_for_writing,
    patiently,
    transaction,
)
from gemmsmith.store.database_rows import TEXT, insert_measurement, insert_run, read_measurements, read_run
from gemmsmith.store.results import Measurement, Run

_T = TypeVar("_T")
_NEWEST_FIRST = "ORDER BY started DESC, number DESC"


@dataclass(frozen=True)
class Record:
    """A measurement with its run; the run is without measurements."""

    run: Run
    measurement: Measurement


class Results:
    """An open results database."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path | None = None, *, read_only: bool = False) -> Results:
        """Open or create the database; None means ``$GEMMSMITH_DB`` or the user's default.

        With ``read_only`` the file or folder may be write-protected, and a missing file reads as empty.
        """
        where = chosen_path(path)
        return cls(where, (open_for_reading if read_only else open_for_writing)(where))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self, run: Run) -> None:
        """Record ``run`` with the measurements it already has; durable when this returns."""

        def write() -> None:
            number = insert_run(self._connection.execute, run)
            for measurement in run.measurements:
                insert_measurement(self._connection.execute, number, measurement)

        try:
            self._transact("IMMEDIATE", write)
        except ResultsError as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                raise UsageError(f"run {run.id} is already in {self.path}") from None
            raise

    def add(self, run_id: str, measurement: Measurement) -> None:
        """Record one more measurement of a run that has begun; durable when this returns."""

        def write() -> None:
            row = self._connection.execute("SELECT number FROM run WHERE id = ?", (TEXT.write(run_id),)).fetchone()
            if row is None:
                raise UsageError(f"no run {run_id} in {self.path}", "record the run with begin before its measurements")
            insert_measurement(self._connection.execute, row[0], measurement)

        self._transact("IMMEDIATE", write)

    def runs(self, *, gpu: str = "", since: str = "", limit: int | None = None) -> tuple[Run, ...]:
        """Runs with their measurements, newest first."""

        def read() -> tuple[Run, ...]:
            return tuple(self._run(number) for number in self._numbers(gpu, since)[:limit])

        return self._transact("DEFERRED", read)

    def ids(self) -> tuple[str, ...]:
        """The ids of all runs, newest first."""
        return self._transact("DEFERRED", self._ids)

    def run(self, name: str) -> Run:
        """The run with this id or unique id prefix; 'latest' is the newest, 'latest~2' the one two before."""

        def read() -> Run:
            wanted = _one_of(self._ids(), name, self.path)
            row = self._connection.execute("SELECT number FROM run WHERE id = ?", (TEXT.write(wanted),)).fetchone()
            return self._run(row[0])

        return self._transact("DEFERRED", read)

    def measurements(
        self,
        *,
        run: str = "",
        contender: str = "",
        shape: tuple[int, int, int] | None = None,
        dtype: str = "",
        gpu: str = "",
        since: str = "",
    ) -> tuple[Record, ...]:
        """Measurements that match all given filters, newest run first.

        ``gpu`` matches part of a name, case-insensitively; ``since`` is a date or time in ISO 8601, UTC by default.
        """
        conditions, values = ["1"], []
        for column, value in (("contender", contender), ("dtype", dtype)):
            if value:
                conditions.append(f"measurement.{column} = ?")
                values.append(TEXT.write(value))
        if shape is not None:
            conditions.append("(measurement.m, measurement.n, measurement.k) = (?, ?, ?)")
            values += shape

        def read() -> tuple[Record, ...]:
            found = []
            wanted = _one_of(self._ids(), run, self.path) if run else ""
            for number in self._numbers(gpu, since):
                owner = read_run(self._connection.execute, number)
                if wanted in ("", owner.id):
                    chosen = read_measurements(self._connection.execute, number, " AND ".join(conditions), values)
                    found += [Record(owner, measurement) for measurement in chosen]
            return tuple(found)

        return self._transact("DEFERRED", read)

    def _numbers(self, gpu: str, since: str) -> list[int]:
        rows = self._connection.execute(
            f"SELECT number FROM run WHERE instr(lower(gpu), ?) > 0 AND started >= ? {_NEWEST_FIRST}",
            (gpu.lower(), _utc(since)),
        )
        return [number for (number,) in rows]

    def _ids(self) -> tuple[str, ...]:
        return tuple(TEXT.read(name) for (name,) in self._connection.execute(f"SELECT id FROM run {_NEWEST_FIRST}"))

    def _run(self, number: int) -> Run:
        execute = self._connection.execute
        return replace(read_run(execute, number), measurements=read_measurements(execute, number, "1", ()))

    def _transact(self, kind: str, body: Callable[[], _T]) -> _T:
        def once() -> _T:
            with transaction(self._connection, kind):
                return body()

        with explained(self.path):
            try:
                return patiently(once)
            except GemmsmithError:
                raise
            except (TypeError, ValueError, OverflowError) as error:
                if kind == "DEFERRED":  # a row with values of unexpected types
                    raise damaged(self.path, error) from error
                raise UsageError(f"cannot record this measurement: {error}") from error


def _utc(since: str) -> str:
    """A date or time in the format of ``run.started``, without a zone, so that both compare as text."""
    if not since:
        return ""
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise UsageError(f"{since!r} is not a date", "write it as 2026-11-15 or 2026-11-15T08:30") from None
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat()


def _one_of(ids: Sequence[str], name: str, path: Path) -> str:
    """The id that ``name`` refers to; ``ids`` are ordered newest first."""
    if not ids:
        raise UsageError(f"no runs in {path} yet", "gemmsmith bench records them")
    steps = re.fullmatch(r"(?:latest)?~(\d{1,9})|latest", name)
    if steps:
        back = int(steps[1] or 0)
        if back >= len(ids):
            raise UsageError(f"{name}: {path} has only {len(ids)} runs", f"the oldest is ~{len(ids) - 1}")
        return ids[back]
    found = [name] if name in ids else [other for other in ids if name and other.startswith(name)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"no run {name!r} in {path}", "gemmsmith history lists them")
    some = ", ".join(found[:4]) + (", …" if len(found) > 4 else "")
    raise UsageError(f"{len(found)} runs begin with {name!r}: {some}", "give more characters of the id")
