"""CPU seconds of this process: what a budget of seconds counts."""

from __future__ import annotations

import os
import sys


def seconds_used() -> float:
    """CPU seconds of this process, of its compiling processes and of its children that have ended, whatever else runs.

    A compilation counts when it is done, and one that the cache spares does not count.
    """
    used = os.times()
    pool = sys.modules.get("gemmsmith.compile.worker_pool")  # without it nothing was compiled
    compiling = pool.worker_pool().seconds() if pool is not None else 0.0
    return used.user + used.system + used.children_user + used.children_system + compiling
