"""A process that forks writers of the results database and kills them; run by test_database_processes.py.

    python database_writers.py WHAT FOLDER FILE_SYSTEM

Everything is imported once, here, so that a writer costs only a fork. Each writer reports on a pipe what it has
recorded, after the recording call has returned; this process prints those lines.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from measured_runs import measurement, run

from gemmsmith.store import database_file
from gemmsmith.store.database import Results

ROUNDS = 50
WRITERS = 16
EACH = 12


def write(path: Path, name: str, count: int, said: int) -> None:
    """Record a run with ``count`` measurements, and report each."""
    with Results.open(path) as results:
        results.begin(run(name))
        os.write(said, f"{path.name} {name} begin\n".encode())
        for number in range(count):
            results.add(name, measurement(f"kernel{number}"))
            os.write(said, f"{path.name} {name} {number}\n".encode())


def forked(work: Callable[[int], None]) -> tuple[int, int]:
    """Fork a child that runs ``work`` with a pipe to report on; returns its id and the reading end."""
    heard, said = os.pipe()
    child = os.fork()
    if child:
        os.close(said)
        return child, heard
    try:
        work(said)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def ended(child: int, heard: int) -> int:
    """Wait for a child and print its reports; returns its exit code, which must be 0 or that of a kill."""
    with open(heard, "rb") as lines:
        sys.stdout.write(lines.read().decode())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, -signal.SIGKILL):
        sys.exit(f"a writer ended with {code}")
    return code


def check(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=10)) as raw:
        found = raw.execute("PRAGMA integrity_check").fetchall()
    if found != [("ok",)]:
        sys.exit(f"{path.name} is damaged: {found[:3]}")


def go_on(path: Path) -> None:
    """Another writer can use the database."""
    ended(*forked(lambda said: write(path, "second", 2, said)))
    check(path)


def together(folder: Path) -> None:
    """Sixteen concurrent writers on a database that does not exist yet."""
    gate, opener = os.pipe()

    def work(name: str, said: int) -> None:
        os.close(opener)
        os.read(gate, 1)  # returns in all at once, when the parent closes its end
        write(folder / "r.db", name, EACH, said)

    children = [forked(partial(work, f"w{number}")) for number in range(WRITERS)]
    os.close(opener)
    codes = [ended(*child) for child in children]
    if any(codes):
        sys.exit("a writer was killed")
    check(folder / "r.db")


def killed(folder: Path) -> None:
    """Fifty times: two writers on one database, both killed at random moments."""
    for number in range(ROUNDS):
        children = [forked(partial(write, folder / "r.db", f"k{number}{letter}", 10_000)) for letter in "ab"]
        if number % 2:  # not before one has begun, however busy the machine is
            select.select([heard for _, heard in children], [], [], 10)
        time.sleep(random.uniform(0, 0.05))
        for child, _ in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            ended(*child)
        if number % 5 == 0:  # mostly it is the next writer that recovers
            check(folder / "r.db")
    go_on(folder / "r.db")


def created(folder: Path) -> None:
    """Fifty times: a writer killed while it creates the database or soon after, then another writer."""
    for number in range(ROUNDS):
        child, heard = forked(partial(write, folder / f"{number}.db", "first", 10_000))
        time.sleep(random.uniform(0, 0.015))
        os.kill(child, signal.SIGKILL)
        ended(child, heard)
        go_on(folder / f"{number}.db")


def stepped(folder: Path) -> None:
    """One writer per SQL statement, each killing itself just before that statement."""

    def work(number: int, said: int) -> None:
        kill_before(number)
        write(folder / f"{number}.db", "first", 1, said)

    number = 1
    while ended(*forked(partial(work, number))):
        go_on(folder / f"{number}.db")
        number += 1


def kill_before(number: int) -> None:
    """Make this process kill itself before its SQL statement of that number."""
    left, real = [number], sqlite3.connect

    def before(_statement: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = real(*arguments, **options)
        connection.set_trace_callback(before)
        return connection

    sqlite3.connect = connect


if __name__ == "__main__":
    what, place, kind = sys.argv[1:]
    database_file.file_system = lambda _folder: kind
    {"together": together, "killed": killed, "created": created, "stepped": stepped}[what](Path(place))
