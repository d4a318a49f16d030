"""Several clocks as one table, so that accesses by lanes that hold different ones are looked up at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP


class ClockTable:
    """``epochs`` and ``counts``: of each clock those of the blocks, and those of the warps that it knows more of.
    ``warps``: as many the grid has."""

    def __init__(self, epochs: Sequence[Array], counts: Sequence[Mapping[int, Array]], warps: int) -> None:
        self._warps = warps
        self._epochs = np.stack(epochs)
        rows = [(index * warps + warp, lanes) for index, of_warps in enumerate(counts)
                for warp, lanes in sorted(of_warps.items())]  # fmt: skip
        self._known = np.array([key for key, _ in rows], np.int64)  # ascending
        self._counts = np.stack([lanes for _, lanes in rows]) if rows else np.zeros((0, WARP), np.int32)

    def knows(self, held: Array, block: Array, epoch: Array, thread: Array, warp: Array, count: Array) -> Array:
        """Whether each clock, by its index, knows what a thread of a block did in an epoch, at a count of its own."""
        result: Array = self._epochs[held, block] > epoch
        if self._known.size:
            asked = held.astype(np.int64) * self._warps + warp
            row = np.searchsorted(self._known, asked).clip(max=self._known.size - 1)
            result |= (self._known[row] == asked) & (self._counts[row, thread % WARP] > count)
        return result
