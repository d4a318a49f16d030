"""Several clocks as one table, so that accesses by lanes that hold different ones are looked up at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gemmsmith.sim.types import Array
from gemmsmith.sim.wave import WARP

if TYPE_CHECKING:
    from gemmsmith.sim.clocks import Clock


class ClockTable:
    """``warps``: as many the grid has."""

    def __init__(self, clocks: Sequence[Clock], warps: int) -> None:
        self._warps = warps
        self._epochs = np.stack([clock.epochs for clock in clocks])
        rows = [(index * warps + warp, counts) for index, clock in enumerate(clocks)
                for warp, counts in sorted(clock.warps.items())]  # fmt: skip
        self._known = np.array([key for key, _ in rows], np.int64)  # ascending
        self._counts = np.stack([counts for _, counts in rows]) if rows else np.zeros((0, WARP), np.int32)

    def knows(self, held: Array, block: Array, epoch: Array, thread: Array, warp: Array, count: Array) -> Array:
        """Whether each clock, by its index, knows what a thread of a block did in an epoch, at a count of its own."""
        result: Array = self._epochs[held, block] > epoch
        if self._known.size:
            asked = held.astype(np.int64) * self._warps + warp
            row = np.searchsorted(self._known, asked).clip(max=self._known.size - 1)
            result |= (self._known[row] == asked) & (self._counts[row, thread % WARP] > count)
        return result
