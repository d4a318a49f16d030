"""CPU seconds of this process: what a budget of seconds counts."""

from __future__ import annotations

import os


def seconds_used() -> float:
    """CPU seconds of this process and of its children that have ended, whatever else runs.

    A compiling process is kept for the next kernel, so its seconds come in only when it ends.
    """
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
