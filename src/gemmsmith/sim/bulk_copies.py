"""Copies that TMA makes: they read and write when the program lets them, not when they are issued.

With ``late_copies`` a load lands when no thread can go on without it, and a store reads its source when its group is
waited for; otherwise both happen at once. A kernel that waits correctly cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.mbarriers import MBarriers
from gemmsmith.sim.types import Array


@dataclass
class Store:
    """A copy out of shared memory by one lane: ``read`` fetches its source, ``write`` writes what that returned."""

    lane: int
    group: int
    read: Callable[[], Array]
    write: Callable[[Array], None]
    data: Array | None = None

    def fetch(self) -> Array:
        if self.data is None:
            self.data = self.read()
        return self.data


@dataclass(frozen=True)
class Load:
    """A copy into shared memory: ``read`` fetches its source, ``write`` writes it; then bytes have landed.

    ``barriers`` are byte positions of the mbarriers that count ``nbytes`` each.
    """

    read: Callable[[], Array]
    write: Callable[[Array], None]
    barriers: Array
    nbytes: int


class BulkCopies:
    """The copies in flight of one wave, and each lane's count of committed groups of stores."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self.committed = np.zeros(machine.wave.lanes, np.int64)
        self.stores: list[Store] = []
        machine.at_end.append(lambda: self._finish(self.stores))

    def load(self, copy: Load) -> None:
        if self.machine.late_copies:
            self.machine.postponed.append(lambda: self._land(copy))
        else:
            self._land(copy)

    def _land(self, copy: Load) -> None:
        copy.write(copy.read())
        self.machine.unit(MBarriers).landed(copy.barriers, np.full(copy.barriers.size, copy.nbytes))

    def store(self, copy: Store) -> None:
        if self.machine.late_copies:
            self.stores.append(copy)
        else:
            copy.write(copy.fetch())

    def commit(self, lanes: Array) -> None:
        self.committed[lanes] += 1

    def wait(self, lanes: Array, allowed: int, only_read: bool) -> None:
        """Finish what these lanes committed, except their last ``allowed`` groups; or let it only be read."""
        waits = np.zeros(self.committed.size, bool)
        waits[lanes] = True
        done = [s for s in self.stores if waits[s.lane] and s.group < self.committed[s.lane] - allowed]
        if only_read:
            for store in done:
                store.fetch()
        else:
            self._finish(done)

    def _finish(self, stores: list[Store]) -> None:
        for store in stores:
            store.write(store.fetch())
        gone = {id(store) for store in stores}
        self.stores = [store for store in self.stores if id(store) not in gone]
