"""CPU seconds of this process: what a budget of seconds counts."""

from __future__ import annotations

import os


def seconds_used() -> float:
    """CPU seconds of this process, of its compiling processes and of its children that have ended, whatever else runs.

    A compilation counts when it is done, and one that the cache spares does not count.
    """
    from gemmsmith.compile.worker_pool import worker_pool

    used = os.times()
    return used.user + used.system + used.children_user + used.children_system + worker_pool().seconds()
