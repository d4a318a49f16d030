"""Where tasks run: the words after ``--on``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmsmith.errors import UsageError

HERE, LOCAL, RAY = "here", "local", "ray"
_MOST = 4096
_HINT = "write --on local:4, --on ray or --on ray://host:10001"


@dataclass(frozen=True)
class Place:
    """``here``: this process, one task after another. ``local``: ``workers`` processes. ``ray``: a Ray cluster."""

    kind: str
    workers: int = 1
    address: str = ""

    def __str__(self) -> str:
        if self.kind == RAY:
            return f"ray://{self.address}" if self.address else RAY
        return f"{LOCAL}:{self.workers}" if self.kind == LOCAL else HERE


def place_named(text: str) -> Place:
    """The place that ``text`` names; raises ``UsageError`` for anything else."""
    if text == HERE:
        return Place(HERE)
    if text == RAY:
        return Place(RAY)
    if found := re.fullmatch(r"local:([0-9]{1,6})", text):
        workers = int(found[1])
        if not 1 <= workers <= _MOST:
            raise UsageError(f"--on {text}: {workers} processes", f"give 1 to {_MOST}")
        return Place(LOCAL, workers)
    if found := re.fullmatch(r"ray://(\[[0-9a-fA-F:]+\]|[^:/\s\[\]]+):([0-9]{1,5})", text):
        if not 0 < int(found[2]) < 65536:
            raise UsageError(f"--on {text}: {found[2]} is not a port", "Ray's port for clients is 10001 by default")
        return Place(RAY, 1, f"{found[1]}:{found[2]}")
    if text.startswith("ray://"):
        raise UsageError(f"--on {text} has no host and port", "write --on ray://host:10001")
    if text.startswith("local"):
        raise UsageError(f"--on {text} has no number of processes", "write --on local:4")
    raise UsageError(f"--on {text} is not a place", _HINT)
