"""The barrier of each cluster of a wave: threads arrive, and later wait until all live threads of the cluster have."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.clocks import Clock
from gemmsmith.sim.waits.mbarriers import MBarriers


class ClusterBarriers:
    """Each lane's arrivals and waits so far, and what the arrivals at each barrier of a cluster released."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self.cluster = machine.block // machine.wave.cluster_blocks
        self.arrivals = np.zeros(machine.wave.lanes, np.int64)
        self.waits = np.zeros(machine.wave.lanes, np.int64)
        self._released: dict[tuple[int, int], Clock] = {}  # by cluster and number of the barrier
        self._fewest = np.zeros(0, np.int64)  # arrivals of a live thread of each cluster
        self._fewest_at = -1  # the machine's progress when they were counted

    def arrive(self, lanes: Array, releases: bool) -> None:
        again = self.arrivals[lanes] != self.waits[lanes]
        if again.any():
            raise LaneFault(int(np.argmax(again)), "barrier.cluster.arrive for the second time without "
                            "barrier.cluster.wait")  # fmt: skip
        self.arrivals[lanes] += 1
        self.machine.progress += 1
        if self.machine.shadow is None:
            return
        if not releases:
            for lane, clock in self.machine.unit(MBarriers).fenced(lanes):
                self._release((int(self.cluster[lane]), int(self.arrivals[lane])), clock)
        else:
            moment = self.machine.shadow.arrive(lanes)
            for block in np.unique(self.machine.block[lanes]):
                mine = lanes[self.machine.block[lanes] == block]
                for number in np.unique(self.arrivals[mine]):
                    clock = self.machine.clocks.known(moment, mine[self.arrivals[mine] == number])
                    self._release((int(self.cluster[mine[0]]), int(number)), clock)

    def _release(self, key: tuple[int, int], clock: Clock) -> None:
        self._released[key] = clock.joined(self._released.get(key, clock))

    def ready(self, lanes: Array) -> Array:
        """Which lanes have been joined by all live threads of their clusters."""
        early = self.arrivals[lanes] == self.waits[lanes]
        if early.any():
            raise LaneFault(int(np.argmax(early)), "barrier.cluster.wait without barrier.cluster.arrive")
        if self._fewest_at != self.machine.progress:  # threads that arrive or end are progress
            counts = np.where(self.machine.alive, self.arrivals, np.iinfo(np.int64).max)
            lanes_each = self.machine.wave.threads * self.machine.wave.cluster_blocks
            self._fewest = np.minimum.reduceat(counts, np.arange(0, counts.size, lanes_each))
            self._fewest_at = self.machine.progress
        found: Array = self._fewest[self.cluster[lanes]] >= self.arrivals[lanes]
        return found

    def passed(self, lanes: Array) -> None:
        self.waits[lanes] += 1
        shadow = self.machine.shadow
        if shadow is None:
            return
        for cluster in np.unique(self.cluster[lanes]):
            mine = lanes[self.cluster[lanes] == cluster]
            for number in np.unique(self.waits[mine]):
                if (clock := self._released.get((int(cluster), int(number)))) is not None:
                    shadow.acquire(mine[self.waits[mine] == number], clock)

    def lacking(self, lane: int) -> int:
        """How many live threads of a lane's cluster have not arrived where it waits."""
        together = self.machine.alive & (self.cluster == self.cluster[lane])
        return int(np.count_nonzero(self.arrivals[together] < self.arrivals[lane]))
