"""Cooperative launches: all blocks run together, and meet at the grid's barrier.

``grid.sync()`` is code of cooperative groups: an atomic add to a counter in a workspace, and a loop that reads it.
The machine runs these instructions like any others, and the race detector sees a release and an acquire.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gemmsmith.errors import LaunchError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.sim.memory.global_memory import GlobalMemory
from gemmsmith.sim.races.clocks import Clock

_WORKSPACE_BYTES = 64  # the size of the workspace, the counter, and what larger groups of grids would need


@dataclass
class GridBarrier:
    """The arrivals at the grid's barrier, for the race detector.

    A block that is slow to leave the barrier may see the counter after another has arrived there again. It then knows
    more than the barrier says. Which block is slow is the schedule's choice, so a block learns here only what the
    blocks did before the round that it waits for.
    """

    workspace: int
    blocks: int
    arrivals: int = 0
    rounds: list[Clock | None] = field(default_factory=list)
    _waits_for: dict[tuple[int, int], int] = field(default_factory=dict)

    def holds(self, address: int) -> bool:
        return self.workspace <= address < self.workspace + _WORKSPACE_BYTES

    def arrive(self, thread: tuple[int, int], known: Clock | None) -> None:
        """A block's thread has arrived; ``known`` is what all that arrived so far did."""
        self._waits_for[thread] = self.arrivals // self.blocks
        self.arrivals += 1
        if self.arrivals % self.blocks == 0:
            self.rounds.append(known)

    def passed(self, thread: tuple[int, int]) -> Clock | None:
        """What a thread learns when it reads the counter: nothing before the round is complete."""
        number = self._waits_for.get(thread, len(self.rounds))
        return self.rounds[number] if number < len(self.rounds) else None


def cooperative_workspace(memory: GlobalMemory, geometry: Geometry, at_once: int) -> int:
    """The address of a new workspace; raises if the blocks cannot all run together here."""
    if geometry.blocks > at_once:
        raise LaunchError(
            f"a cooperative launch of {geometry.blocks:,} blocks of {geometry.threads} threads: the simulator can run "
            f"{at_once:,} of them together",
            "launch fewer blocks; a loop over the grid's stride covers the rest",
        )
    address = memory.allocate(_WORKSPACE_BYTES)
    memory.label(address, "the workspace of grid.sync()")
    return address
