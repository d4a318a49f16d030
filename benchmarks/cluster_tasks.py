"""The tasks of cluster_overhead.py."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmsmith.cli.task_kinds import handler_named as command_handler


def nothing(parameters: dict[str, Any], folder: Path) -> Any:  # noqa: ARG001
    return parameters["x"]


def sweep(parameters: dict[str, Any], folder: Path) -> Any:
    """A task of ``gemmsmith sweep``: the seconds of the core that it took, and in which process."""
    start = time.process_time()
    command_handler("sweep")(parameters, folder)
    return {"core_seconds": time.process_time() - start, "process": os.getpid()}


def handler_named(kind: str) -> Callable[[dict[str, Any], Path], Any]:
    return {"nothing": nothing, "sweep": sweep}[kind]
