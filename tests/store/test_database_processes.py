"""Concurrent writers lose nothing; a writer killed at any moment leaves a valid database with all its records."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from database_writers import EACH, ROUNDS, WRITERS
from measured_runs import measurement, run

from gemmsmith.store.database import Results

# WAL with shared memory, and the rollback journal for file systems without it.
JOURNALS = pytest.mark.parametrize("file_system", ["ext4", "nfs4"], ids=["wal", "journal"])


def acknowledged(what: str, folder: Path, file_system: str) -> dict[tuple[str, str], int]:
    """What the writers reported as recorded: measurements by file and run."""
    command = [
        sys.executable,
        str(Path(__file__).parents[1] / "helpers" / "database_writers.py"),
        what,
        str(folder),
        file_system,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[tuple[str, str], int] = defaultdict(int)
    for line in done.stdout.splitlines():
        file, name, recorded = line.split()
        found[file, name] += recorded != "begin"
    return found


def all_there(folder: Path, told: dict[tuple[str, str], int]) -> None:
    """Each run holds all acknowledged measurements in order, and at most one more."""
    for file in {file for file, _ in told}:
        with Results.open(folder / file, read_only=True) as results:
            recorded = {found.id: found for found in results.runs()}
        assert {name for f, name in told if f == file} <= recorded.keys()
        for name, found in recorded.items():
            count = len(found.measurements)
            assert told.get((file, name), 0) <= count <= told.get((file, name), 0) + 1
            assert found == run(name, *[measurement(f"kernel{number}") for number in range(count)])


@JOURNALS
def test_sixteen_writers_lose_nothing(file_system: str, tmp_path: Path) -> None:
    told = acknowledged("together", tmp_path, file_system)
    assert told == {("r.db", f"w{number}"): EACH for number in range(WRITERS)}
    all_there(tmp_path, told)


@JOURNALS
def test_writers_killed_fifty_times_lose_nothing_acknowledged(file_system: str, tmp_path: Path) -> None:
    told = acknowledged("killed", tmp_path, file_system)
    assert told["r.db", "second"] == 2
    assert len(told) > 2, "some were killed after they had begun"
    all_there(tmp_path, told)


@JOURNALS
def test_writers_killed_while_creating_the_database(file_system: str, tmp_path: Path) -> None:
    told = acknowledged("created", tmp_path, file_system)
    assert [told[f"{number}.db", "second"] for number in range(ROUNDS)] == [2] * ROUNDS
    all_there(tmp_path, told)


@JOURNALS
def test_writers_killed_before_each_statement(file_system: str, tmp_path: Path) -> None:
    told = acknowledged("stepped", tmp_path, file_system)
    killed = {file for file, name in told if name == "second"}
    whole = {file for file, name in told if name == "first" and told[file, name] == 1}
    assert len(killed) > 30, "opening, making tables and recording are many statements"
    assert len(whole - killed) == 1, "the last writer had no such statement"
    all_there(tmp_path, told)
