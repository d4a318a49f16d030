"""Starts ``driver.py`` in a process of its own, and reads what it left in the database."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    path = os.pathsep.join([str(SOURCE), str(HERE), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": path} | dict(more or {})


def start(folder: Path, place: str, tasks: Sequence[Mapping[str, Any]], more: Mapping[str, str] | None = None,
          words: Sequence[str] = ()) -> subprocess.Popen[str]:  # fmt: skip
    file = folder / "tasks.json"
    file.write_text(json.dumps(list(tasks)), encoding="utf-8")
    command = [sys.executable, str(HERE / "driver.py"), place, str(folder / "r.db"), str(file), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(more))


def finish(driver: subprocess.Popen[str], seconds: float = 120) -> dict[str, Any]:
    out, err = driver.communicate(timeout=seconds)
    assert driver.returncode == 0, err
    facts: dict[str, Any] = json.loads(out)
    return facts


def end(driver: subprocess.Popen[str], how: signal.Signals) -> int:
    """End a driver by a signal; its exit status."""
    driver.send_signal(how)
    driver.communicate(timeout=30)
    return driver.returncode


def drive(folder: Path, place: str, tasks: Sequence[Mapping[str, Any]], more: Mapping[str, str] | None = None,
          words: Sequence[str] = ()) -> dict[str, Any]:  # fmt: skip
    return finish(start(folder, place, tasks, more, words))


def squares(folder: Path, count: int, seconds: float = 0.0) -> list[dict[str, Any]]:
    """Tasks that note in a ledger that they ran."""
    return [{"kind": "square", "parameters": {"x": x, "seconds": seconds, "ledger": str(folder / "ledger")}}
            for x in range(count)]  # fmt: skip


def ran(folder: Path) -> list[int]:
    """What the ledger says, sorted."""
    ledger = folder / "ledger"
    return sorted(map(int, ledger.read_text(encoding="utf-8").split())) if ledger.exists() else []


def recorded(folder: Path) -> list[tuple[int, str]]:
    """(job, digest) of every task in the database."""
    database = folder / "r.db"
    if not database.exists():
        return []
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=30)) as raw:
        try:
            return list(raw.execute("SELECT job, digest FROM task"))
        except sqlite3.OperationalError:  # no tables yet
            return []


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
