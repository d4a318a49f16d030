"""In which order warps run, and when asynchronous copies land.

A correct kernel gives the same bits under every schedule that its barriers allow; a kernel that lacks a barrier or a
wait does not. ``lockstep`` is the fastest to simulate and hides most errors; the others let warps drift as far apart as
the barriers allow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from gemmsmith.errors import UsageError


@dataclass
class Schedule:
    """A named order of warps. A team is a set of warps that advance together.

    ``by_block``: a team is a block, where blocks wait for one another.
    """

    name: str
    seed: int = 0
    starved: int = -1
    late_copies: bool = False
    by_block: bool = False
    _random: Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    @property
    def lockstep(self) -> bool:
        return self.name == "lockstep"

    def choose(self, teams: list[int], positions: list[int]) -> int:
        """The index of the group to run next, given each ready group's team and position."""
        order = range(len(teams))
        if self.name == "lockstep":
            return min(order, key=lambda i: positions[i])
        if self.name == "in_order":
            return min(order, key=lambda i: (teams[i], positions[i]))
        if self.name == "reversed":
            return min(order, key=lambda i: (-teams[i], positions[i]))
        if self.name == "starved":
            return min(order, key=lambda i: (teams[i] == self.starved, teams[i], positions[i]))
        return self._random.randrange(len(teams))

    def completes(self, count: int) -> int:
        """Which of so many operations in flight, the oldest first, completes next: nothing orders them."""
        if self.name == "reversed":
            return count - 1
        return self._random.randrange(count) if self.name == "random" else 0

    def at_once(self) -> bool:
        """Whether an asynchronous operation completes when it is issued, not as late as allowed."""
        return not self.late_copies or (self.name == "random" and self._random.random() < _EARLY)

    def quantum(self) -> int:
        """How many steps the chosen group runs before another is chosen; 0: until it must wait."""
        return self._random.randrange(1, 24) if self.name == "random" else 0


_EARLY = 0.25  # of the operations under 'random'
NAMES = ("lockstep", "in_order", "reversed", "random", "starved")


def schedule_named(name: str, seed: int = 0, late_copies: bool | None = None) -> Schedule:
    """A schedule by name, one of NAMES. By default all but lockstep let copies land as late as allowed.

    ``starved`` runs warp ``seed`` only when no other warp can run.
    """
    if name not in NAMES:
        raise UsageError(f"unknown schedule {name!r}", f"use one of {', '.join(NAMES)}")
    late = name != "lockstep" if late_copies is None else late_copies
    return Schedule(name, seed=seed, starved=seed if name == "starved" else -1, late_copies=late)
