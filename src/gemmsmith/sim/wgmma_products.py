"""The wgmma instructions in flight of a wave, and the groups that each warp has committed.

Each warp computes its own 16 rows of the 64. With ``late_copies`` a product happens when its warp waits for its group,
otherwise at once. A kernel that fences and waits correctly cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.types import Array


@dataclass(frozen=True)
class Flying:
    """A product of some warps: ``compute`` does it for some of their lanes, given by their places among ``lanes``."""

    lanes: Array
    group: Array
    compute: Callable[[Array], None]


class WgmmaProducts:
    """Products by the lanes that issued them; ``committed`` counts each lane's groups."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self.committed = np.zeros(machine.wave.lanes, np.int64)
        self.flying: list[Flying] = []

    def issue(self, lanes: Lanes, compute: Callable[[Array], None]) -> None:
        mine = self.machine.indices(lanes)
        if self.machine.late_copies:
            self.flying.append(Flying(mine, self.committed[mine], compute))
        else:
            compute(np.arange(mine.size))

    def commit(self, lanes: Lanes) -> None:
        self.committed[lanes] += 1

    def wait(self, lanes: Lanes, allowed: int) -> None:
        """Do what these lanes committed, except their last ``allowed`` groups, in the order it was issued."""
        waits = np.zeros(self.committed.size, bool)
        waits[lanes] = True
        left = []
        for product in self.flying:
            done = waits[product.lanes] & (product.group < self.committed[product.lanes] - allowed)
            if done.any():
                product.compute(np.flatnonzero(done))
            if not done.all():
                left.append(Flying(product.lanes[~done], product.group[~done], _rest(product.compute, ~done)))
        self.flying = left


def _rest(compute: Callable[[Array], None], kept: Array) -> Callable[[Array], None]:
    places = np.flatnonzero(kept)
    return lambda chosen: compute(places[chosen])
