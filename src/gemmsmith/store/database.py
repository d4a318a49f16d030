"""The results database: every run with its machine and its measurements, in one SQLite file.

``begin`` and ``add`` are one transaction each: durable when they return, and atomic if the process is killed. Any
number of processes may write at once.

    with Results.open() as results:
        results.begin(run)
        results.add(run.id, measurement)

Every row carries a checksum. A damaged row is named in a ``ResultsWarning`` and left out; the others are read.

A connection belongs to the thread and process that opened it. docs/results.md describes the tables.
"""

from __future__ import annotations

import re
import sqlite3
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.store.checksums import Damage
from gemmsmith.store.database_access import (
    StoredRun,
    insert_measurement,
    insert_run,
    read_measurements,
    read_run,
    read_runs,
    with_measurements,
)
from gemmsmith.store.database_errors import ResultsError, ResultsWarning, damaged, explained, repair_hint
from gemmsmith.store.database_file import chosen_path, open_for_reading, open_for_writing, patiently
from gemmsmith.store.database_upgrade import transaction
from gemmsmith.store.results import Measurement, Run

_T = TypeVar("_T")
_MOST_NAMED = 8  # damaged rows named in one message


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
        self._damage: dict[Damage, bool] = {}  # in order of discovery; whether it was told

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
            read_runs(self._connection.execute, self._found)
            stored = (insert_run(self._connection.execute, run), 0, run)
            for measurement in run.measurements:
                stored = insert_measurement(self._connection.execute, stored, measurement)

        try:
            self._transact("IMMEDIATE", write)
        except ResultsError as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                raise UsageError(f"run {run.id} is already in {self.path}") from None
            raise

    def add(self, run_id: str, measurement: Measurement) -> None:
        """Record one more measurement of a run that has begun; durable when this returns."""

        def write() -> None:
            stored = read_run(self._connection.execute, run_id, self._found)
            if stored is None:
                read_runs(self._connection.execute, self._found)
                self._refuse_if_damaged(f"measurements of run {run_id}")
                raise UsageError(f"no run {run_id} in {self.path}", "record the run with begin before its measurements")
            insert_measurement(self._connection.execute, stored, measurement)

        self._transact("IMMEDIATE", write)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The damaged rows met until now."""
        return tuple(self._damage)

    def page_errors(self) -> tuple[str, ...]:
        """What SQLite's own check of the whole file finds, indexes included; empty if nothing."""
        rows = self._transact("DEFERRED", lambda: self._connection.execute("PRAGMA integrity_check").fetchall())
        return tuple(" ".join(str(text).split()) for (text,) in rows if text != "ok")

    def runs(self, *, gpu: str = "", since: str = "", limit: int | None = None) -> tuple[Run, ...]:
        """Runs with their measurements, newest first."""

        def read() -> tuple[Run, ...]:
            chosen = self._chosen(gpu, since)[:limit]
            return tuple(with_measurements(self._connection.execute, stored, self._found) for stored in chosen)

        return self._transact("DEFERRED", read)

    def ids(self) -> tuple[str, ...]:
        """The ids of all runs, newest first."""
        return self._transact("DEFERRED", lambda: tuple(stored[2].id for stored in self._chosen()))

    def run(self, name: str) -> Run:
        """The run with this id or unique id prefix; 'latest' is the newest, 'latest~2' the one two before."""
        return self._transact("DEFERRED", lambda: with_measurements(
            self._connection.execute, self._named(name), self._found))  # fmt: skip

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

        def wanted(measurement: Measurement) -> bool:
            """Compared after reading, so that a damaged value is named and not filtered away."""
            problem = measurement.problem
            return (
                (not contender or measurement.identity.name == contender)
                and (not dtype or problem.dtype.name == dtype)
                and (shape is None or (problem.m, problem.n, problem.k) == tuple(shape))
            )

        def read() -> tuple[Record, ...]:
            only = self._named(run)[2].id if run else ""
            return tuple(
                Record(stored[2], measurement)
                for stored in self._chosen(gpu, since)
                if only in ("", stored[2].id)
                for measurement in read_measurements(self._connection.execute, stored, self._found)
                if wanted(measurement)
            )

        return self._transact("DEFERRED", read)

    def _chosen(self, gpu: str = "", since: str = "") -> list[StoredRun]:
        """The runs of this GPU and time, newest first."""
        earliest = _utc(since)
        found = [
            stored for stored in read_runs(self._connection.execute, self._found)
            if gpu.lower() in stored[2].machine.gpu.lower() and stored[2].started >= earliest
        ]  # fmt: skip
        return sorted(found, key=lambda stored: (stored[2].started, stored[0]), reverse=True)

    def _named(self, name: str) -> StoredRun:
        runs = {stored[2].id: stored for stored in self._chosen()}
        try:
            return runs[_one_of(tuple(runs), name, self.path)]
        except UsageError:
            self._refuse_if_damaged(f"run {name}")
            raise

    def _found(self, damage: Damage) -> None:
        self._damage.setdefault(damage, False)

    def _refuse_if_damaged(self, wanted: str) -> None:
        """What is not among the intact rows may be among the damaged ones."""
        if self._damage:
            self._damage = dict.fromkeys(self._damage, True)
            raise ResultsError(
                f"{wanted}: not among the intact rows of {self._damage_text(self.damage)}", repair_hint(self.path)
            )

    def _warn(self) -> None:
        """Name damaged rows, each once."""
        new = [damage for damage, told in self._damage.items() if not told]
        self._damage = dict.fromkeys(self._damage, True)
        if new:
            text = f"{self._damage_text(new)}. The other rows are intact; {repair_hint(self.path)}"
            warnings.warn(text, ResultsWarning, stacklevel=4)

    def _damage_text(self, damage: Sequence[Damage]) -> str:
        rest = f"; and {len(damage) - _MOST_NAMED} more" if len(damage) > _MOST_NAMED else ""
        return f"{self.path}, which is damaged: {'; '.join(map(str, damage[:_MOST_NAMED]))}{rest}"

    def _transact(self, kind: str, body: Callable[[], _T]) -> _T:
        def once() -> _T:
            with transaction(self._connection, kind):
                return body()

        with explained(self.path):
            try:
                found = patiently(once)
                self._warn()
                return found
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
