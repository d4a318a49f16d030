"""The functions of tasks, by kind. Workers know no others."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmsmith.errors import UsageError

Handler = Callable[[dict[str, Any], Path], Any]
_MODULES = {
    "check": "check", "load": "load", "verify": "verify", "sweep": "sweep", "bench": "bench", "tune": "tune",
    "count_rung": "climb", "verify_rung": "climb", "time_rungs": "climb",
}  # fmt: skip


def handler_named(kind: str) -> Handler:
    """The function of a kind: ``do_KIND`` of its module below ``cli/tasks/``."""
    if kind not in _MODULES:
        raise UsageError(f"there is no task of kind {kind!r}", "install the same version on all machines")
    module = importlib.import_module(f"gemmsmith.cli.tasks.{_MODULES[kind]}_tasks")
    found: Handler = getattr(module, f"do_{kind}")
    return found
