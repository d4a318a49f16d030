"""What is intact in a damaged results database, and what is lost.

Rows are taken from the file's pages and proved by their checksums, so neither SQLite's structure nor the file's header
has to be intact. In a database from before checksums rows are taken as they are.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmsmith.store.checksums import DamagedRowError
from gemmsmith.store.database_errors import ELSEWHERE, ResultsError
from gemmsmith.store.database_rows import (
    CONFIG,
    DTYPE,
    FLAG,
    INTEGER,
    MEASUREMENT,
    PACKAGE,
    PARTS,
    REAL,
    RUN,
    TABLES,
    TEXT,
    Codec,
    Table,
    measurement_of,
    run_of,
)
from gemmsmith.store.database_upgrade import migrate
from gemmsmith.store.results import Machine, Measurement, Run
from gemmsmith.store.sqlite_pages import RawRow, raw_rows

_ADDED = {"checksum", "measurements"}  # columns that rows from before checksums lack
_TYPES: dict[Codec, tuple[type, ...]] = {
    TEXT: (str, bytes), CONFIG: (str, bytes), DTYPE: (str,), INTEGER: (int,), FLAG: (int,), REAL: (float, type(None)),
}  # fmt: skip


@dataclass(frozen=True)
class Salvage:
    """Runs with their intact measurements, oldest first; ``lost`` says what is missing, in the user's words."""

    runs: tuple[Run, ...]
    lost: tuple[str, ...]
    proved: bool  # by checksums

    @property
    def measurements(self) -> int:
        return sum(len(run.measurements) for run in self.runs)


def salvage(path: Path) -> Salvage:
    """Read ``path`` without changing it or its journal."""
    rows = list(raw_rows(_contents(path)))
    found = _Rows(_by_table(rows, signed=True), signed=True)
    if not found.runs() and not found.tables["measurement"]:
        found = _Rows(_by_table(rows, signed=False), signed=False)
    return found.salvage()


def _contents(path: Path) -> bytes:
    """The file with the transactions of its journal; without them if SQLite cannot read it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        try:
            shutil.copyfile(path, copy)
            for journal in ("-wal", "-journal"):
                with suppress(FileNotFoundError):
                    shutil.copyfile(f"{path}{journal}", f"{copy}{journal}")
        except OSError as error:
            raise ResultsError(f"cannot read the results database {path}: {error.strerror}", ELSEWHERE) from None
        with suppress(sqlite3.Error), closing(sqlite3.connect(copy)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()  # replays a rollback journal
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return copy.read_bytes()


def _by_table(rows: Iterable[RawRow], *, signed: bool) -> dict[str, list[list[Any]]]:
    """Rows by the table whose number of columns they have, their columns in the order of ``Table.stored``."""
    found: dict[str, list[list[Any]]] = defaultdict(list)
    orders = _column_orders(signed)
    for row in rows:
        for table in TABLES:
            columns = orders[table.name]
            if len(row.values) != len(columns) or (row.rowid is None) != ("number" not in columns):
                continue
            named: dict[str, Any] = dict.fromkeys(_ADDED, "") | dict(zip(columns, row.values, strict=True))
            if row.rowid is not None:
                named["number"] = row.rowid
            found[table.name].append([named[name] for name in table.stored])
    return found


def _column_orders(signed: bool) -> dict[str, list[str]]:
    """The columns of each table as its rows store them: in the order of the table's creation."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh)
        names = {
            table.name: [row[1] for row in fresh.execute(f"PRAGMA table_info({table.name})")] for table in TABLES
        }  # fmt: skip
    return names if signed else {table: [c for c in columns if c not in _ADDED] for table, columns in names.items()}


class _Rows:
    """The rows of a file by table, not yet proved."""

    def __init__(self, tables: dict[str, list[list[Any]]], *, signed: bool) -> None:
        self.signed = signed
        self.tables = tables
        self.parts: dict[tuple[str, Any], dict[Any, list[Any]]] = defaultdict(dict)
        for table in (PACKAGE, *PARTS):
            for row in tables[table.name]:
                with suppress(DamagedRowError):
                    self._sign(table, row)
                    table.opened(row)
                    self.parts[table.name, row[0]][row[1]] = row

    def _sign(self, table: Table, row: list[Any], parts: Sequence[str] = ()) -> None:
        """A row from before checksums is taken as it is."""
        if self.signed:
            return
        many = len(table.keys) + len(table.more)
        for (_, _, codec), value in zip(table.columns, row[many:-1], strict=True):
            if not isinstance(value, _TYPES[codec]):  # a row of another table with as many columns
                raise DamagedRowError(table.damage(row, "a value has another type"))
        row[:] = table.row(row[:many], row[many:-1], parts)

    def _belonging(self, table: Table, owner: int) -> list[list[Any]]:
        found = self.parts.get((table.name, owner), {})
        return [found[position] for position in sorted(found)]

    def runs(self) -> dict[int, tuple[int | None, Run]]:
        """Runs by number, with the count of their measurements where it is known."""
        found: dict[int, tuple[int | None, Run]] = {}
        for row in self.tables["run"]:
            packages = self._belonging(PACKAGE, row[0])
            with suppress(DamagedRowError):
                self._sign(RUN, row, [package[-1] for package in packages])
                run = run_of(row, packages)
                count = row[1] if self.signed else None
                if row[0] not in found or (count or 0) >= (found[row[0]][0] or 0):  # a page may hold an older copy
                    found[row[0]] = (count, run)
        return found

    def measurements(self) -> dict[int, tuple[int, Measurement]]:
        """Measurements by number, with the number of their run."""
        found = {}
        for row in self.tables["measurement"]:
            parts = [self._belonging(table, row[0]) for table in PARTS]
            with suppress(DamagedRowError):
                self._sign(MEASUREMENT, row, [part[-1] for rows in parts for part in rows])
                found[row[0]] = (row[1], measurement_of(row, parts))
        return found

    def salvage(self) -> Salvage:
        runs, measurements = self.runs(), self.measurements()
        of_run: dict[int, list[Measurement]] = defaultdict(list)
        for _, (owner, measurement) in sorted(measurements.items()):
            of_run[owner].append(measurement)
        lost = [*self._lost_rows(runs, measurements)]
        whole = []
        for number in sorted(runs.keys() | of_run.keys()):
            count, run = runs.get(number, (None, _nameless(number)))
            if number not in runs:
                lost.append(f"run number {number}: its own row; its measurements are kept under {run.id}")
            if count is not None and count != len(of_run[number]):
                lost.append(f"run {run.id}: {count - len(of_run[number])} of {count} measurements")
            whole.append(replace(run, measurements=tuple(of_run[number])))
        return Salvage(tuple(whole), tuple(lost), self.signed)

    def _lost_rows(self, runs: dict[int, Any], measurements: dict[int, Any]) -> Iterator[str]:
        """Rows that are there and are not what was written."""
        for table, kept in ((RUN, runs), (MEASUREMENT, measurements)):
            for number in sorted({row[0] for row in self.tables[table.name]} - kept.keys()):
                yield f"table {table.name}, row number {number}: the checksum does not match its contents or its parts"


def _nameless(number: int) -> Run:
    machine = Machine(host="", system="", cpu="", python="")
    return Run(f"salvaged-{number}", "1970-01-01T00:00:00", "unknown: the row of this run was damaged", "", machine)
