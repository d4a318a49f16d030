"""CPU seconds of this process: what a budget of seconds counts."""

from __future__ import annotations

import os


def seconds_used() -> float:
    """CPU seconds of this process and of the compiler: what one idle core would take, whatever else runs."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
