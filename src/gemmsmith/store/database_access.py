"""Rows of an open database, written with checksums and proved by them when read.

A damaged row is reported and left out; a row's owner is damaged with it: a measurement without one of its timings
would be another measurement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from gemmsmith.store.checksums import Damage, DamagedRowError
from gemmsmith.store.database_rows import (
    MEASUREMENT,
    PACKAGE,
    PARTS,
    RUN,
    TEXT,
    measurement_of,
    measurement_rows,
    run_of,
    run_row,
)
from gemmsmith.store.results import Measurement, Run

Execute = Callable[[str, Sequence[Any]], Any]
Report = Callable[[Damage], None]
StoredRun = tuple[int, int, Run]  # number, count of measurements, the run without them


def insert_run(execute: Execute, run: Run) -> int:
    """Write the run's row and its packages; returns the row number."""
    number = _next_number(execute, "run")
    row, packages = run_row(number, run, 0)
    execute(RUN.insert, row)
    for package in packages:
        execute(PACKAGE.insert, package)
    return number


def insert_measurement(execute: Execute, stored: StoredRun, measurement: Measurement) -> StoredRun:
    """Write the measurement's row and its dependent rows, and count it in its run; returns the run as it is now."""
    owner, count, run = stored
    row, parts = measurement_rows(_next_number(execute, "measurement"), owner, measurement)
    execute(MEASUREMENT.insert, row)
    for table, rows in zip(PARTS, parts, strict=True):
        for part in rows:
            execute(table.insert, part)
    counted, _ = run_row(owner, run, count + 1)
    execute("UPDATE run SET measurements = ?, checksum = ? WHERE number = ?", (count + 1, counted[-1], owner))
    return owner, count + 1, run


def _next_number(execute: Execute, table: str) -> int:
    return int(execute(f"SELECT coalesce(max(number), 0) + 1 FROM {table}", ()).fetchone()[0])


def read_runs(execute: Execute, report: Report) -> list[StoredRun]:
    """All runs that are intact, in order of arrival, without their measurements."""
    rows = execute(f"{RUN.select} NOT INDEXED ORDER BY number", ()).fetchall()
    found = [_stored_run(execute, row, report) for row in rows]
    read_ledger(execute, len(rows), report)
    return [stored for stored in found if stored is not None]


def read_run(execute: Execute, name: str, report: Report) -> StoredRun | None:
    """The run with this id, without its measurements; None if there is none that is intact."""
    rows = execute(f"{RUN.select} WHERE id = ?", (TEXT.write(name),)).fetchall()
    return _stored_run(execute, rows[0], report) if rows else None


def _stored_run(execute: Execute, row: Sequence[Any], report: Report) -> StoredRun | None:
    with reported(report, "run", f"number {row[0]}"):
        packages = execute(f"{PACKAGE.select} WHERE run = ? ORDER BY position", row[:1]).fetchall()
        return int(row[0]), int(row[1]), run_of(row, packages)
    return None


def read_ledger(execute: Execute, runs: int, report: Report) -> None:
    """Report runs that are missing: the ledger counts them."""
    found = execute("SELECT runs, checksum FROM ledger", ()).fetchall()
    if len(found) != 1 or not all(isinstance(value, int) for value in found[0]) or found[0][1] != -1 - found[0][0]:
        report(Damage("ledger", "1", "the checksum does not match its contents"))
    elif found[0][0] != runs:
        report(Damage("run", "", f"{found[0][0]} runs were recorded, {runs} are there"))


def read_measurements(execute: Execute, stored: StoredRun, report: Report) -> tuple[Measurement, ...]:
    """The run's measurements that are intact, in order of arrival."""
    run, count, _ = stored
    numbers: list[int] = []
    with reported(report, "measurement", f"those of run {run}"):
        numbers = _measurement_numbers(execute, "", run)
    if len(numbers) != count:
        with reported(report, "measurement", f"those of run {run}"):
            numbers = _measurement_numbers(execute, "NOT INDEXED", run)
        there = "all are in the table" if len(numbers) == count else f"{len(numbers)} are there"
        report(Damage("measurement", f"those of run {run}", f"{count} were recorded, {there}"))
    found = []
    for number in numbers:
        with reported(report, "measurement", f"number {number}"):
            found.append(_read_measurement(execute, number, run))
    return tuple(found)


def _measurement_numbers(execute: Execute, how: str, run: int) -> list[int]:
    rows = execute(f"SELECT number FROM measurement {how} WHERE run = ? ORDER BY number", (run,)).fetchall()
    return sorted({number for (number,) in rows})


def _read_measurement(execute: Execute, number: int, run: int) -> Measurement:
    rows = execute(f"{MEASUREMENT.select} WHERE number = ?", (number,)).fetchall()
    if len(rows) != 1 or rows[0][1] != run:
        raise DamagedRowError(Damage("measurement", f"number {number}", "an index names a row that is not there"))
    parts = [
        execute(f"{table.select} WHERE measurement = ? ORDER BY position", (number,)).fetchall() for table in PARTS
    ]
    return measurement_of(rows[0], parts)


@contextmanager
def reported(report: Report, table: str, row: str) -> Iterator[None]:
    """Report a damaged row, or a damaged page where rows were looked for, and go on with the next."""
    try:
        yield
    except DamagedRowError as error:
        report(error.damage)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        report(Damage(table, row, f"SQLite says: {error}"))


def sign_rows(execute: Execute) -> int:
    """Write the checksums of rows from before there were any, as they are now; returns how many rows."""
    signed = 0
    count = "(SELECT count(*) FROM measurement WHERE measurement.run = run.number)"
    execute(f"UPDATE run SET measurements = {count}", ())
    for table, parts, owner in ((RUN, (PACKAGE,), "run"), (MEASUREMENT, PARTS, "measurement")):
        for row in execute(f"{table.select} ORDER BY number", ()).fetchall():
            proofs = []
            for part in parts:
                for small in execute(f"{part.select} WHERE {owner} = ? ORDER BY position", row[:1]).fetchall():
                    proofs.append(part.row(small[:2], small[2:-1])[-1])
                    execute(
                        f"UPDATE {part.name} SET checksum = ? WHERE {owner} = ? AND position = ?",
                        (proofs[-1], *small[:2]),
                    )
            proof = table.row(row[:2], row[2:-1], proofs)[-1]
            execute(f"UPDATE {table.name} SET checksum = ? WHERE number = ?", (proof, row[0]))
            signed += 1 + len(proofs)
    return signed


def with_measurements(execute: Execute, stored: StoredRun, report: Report) -> Run:
    return replace(stored[2], measurements=read_measurements(execute, stored, report))
