"""The seconds that a check's budget counts: those of a usual core, for what its trials do.

How long a trial takes depends on the machine and on what else it does; which trials a budget has room for must not. So
a check counts what the simulator did (sim/work.py), and a fixed number of seconds for all that comes before. A kernel
whose CPU seconds are more than what is counted ends by these.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gemmsmith.compile.cpu_seconds import seconds_used
from gemmsmith.sim.work import WORK

_BEFORE = 1.0  # to compile and to read the kernel
_STARTING = 2.5  # more, of a command: the interpreter, and what is compiled for the first time


@dataclass(frozen=True)
class CheckClock:
    """Counts from when it was made. ``started``: CPU seconds of the process when the check began."""

    started: float = field(default_factory=seconds_used)
    command: bool = False
    done: float = field(default_factory=lambda: WORK.seconds)

    def cpu(self) -> float:
        """CPU seconds until now."""
        return seconds_used() - self.started

    def used(self) -> float:
        """Seconds of the budget that are used up."""
        counted = _BEFORE + (_STARTING if self.command else 0.0) + self.work() - self.done
        return max(counted, self.cpu())

    @staticmethod
    def work() -> float:
        """What the simulator did since the process began; differences tell how long a trial takes."""
        return WORK.seconds
