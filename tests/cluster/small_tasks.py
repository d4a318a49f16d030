"""Tasks for tests: quick, slow, hanging, and deadly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmsmith.errors import UsageError

# ruff: noqa: ARG001 - a handler takes parameters and a folder, whether it needs them or not

Handler = Callable[[dict[str, Any], Path], Any]


def square(parameters: dict[str, Any], folder: Path) -> Any:
    """The square; after ``seconds``; a line in ``ledger`` for each time it ran."""
    time.sleep(parameters.get("seconds", 0))
    if "ledger" in parameters:
        with open(parameters["ledger"], "a", encoding="utf-8") as file:
            file.write(f"{parameters['x']}\n")
    return parameters["x"] ** 2


def crash(parameters: dict[str, Any], folder: Path) -> Any:
    """Ends its process; only the first ``times`` times, counted in a file."""
    print("about to crash", flush=True)
    count = Path(parameters["count"])
    with count.open("a", encoding="utf-8") as file:
        file.write("x")
    if len(count.read_text(encoding="utf-8")) <= parameters["times"]:
        os.kill(os.getpid(), signal.SIGSEGV)
    return "survived"


def hang(parameters: dict[str, Any], folder: Path) -> Any:
    """Waits for a child that never ends, whose process id it writes first."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(parameters["pid"]).write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
    print("hanging now", flush=True)
    return child.wait()


def refuse(parameters: dict[str, Any], folder: Path) -> Any:
    raise UsageError("this cannot be", "try another")


def read(parameters: dict[str, Any], folder: Path) -> Any:
    """A file's text by the path that the driver knows, and the path that the task sees."""
    path = Path(parameters["path"])
    seen = path if not path.is_absolute() else Path(f"{folder}{path}")
    return {"text": seen.read_text(encoding="utf-8"), "at": str(seen.resolve())}


def add(parameters: dict[str, Any], folder: Path) -> Any:
    """Simulated arithmetic: a fixed amount of work in NumPy."""
    import numpy as np

    values = np.arange(parameters["n"], dtype=np.float64)
    for _ in range(parameters["rounds"]):
        values = values * 1.0000001 + 1.0
    return float(values.sum())


def handler_named(kind: str) -> Handler:
    return {"square": square, "crash": crash, "hang": hang, "refuse": refuse, "read": read, "add": add}[kind]
