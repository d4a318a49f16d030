"""The tasks of cluster_overhead.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmsmith.cli import task_kinds


def nothing(parameters: dict[str, Any], folder: Path) -> Any:  # noqa: ARG001
    return parameters["x"]


def handler_named(kind: str) -> Callable[[dict[str, Any], Path], Any]:
    return nothing if kind == "nothing" else task_kinds.handler_named(kind)
