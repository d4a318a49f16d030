"""The lanes of one block among those of a step: sets of lanes are in ascending order, so they are neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP

FULL = 0xFFFFFFFF
_BITS = np.left_shift(np.int64(1), np.arange(WARP))


@dataclass(frozen=True)
class TracedLanes:
    """``part`` cuts values of all lanes of a step to those of the block; ``threads`` are their numbers in it."""

    part: slice
    threads: Array

    @property
    def whole(self) -> bool:
        """Whether these are whole warps, from the first thread of one to the last of another."""
        return self.threads.size % WARP == 0 and int(self.threads[-1]) - int(self.threads[0]) + 1 == self.threads.size \
            and int(self.threads[0]) % WARP == 0  # fmt: skip

    def masks(self) -> list[tuple[int, int]]:
        """(warp, mask of its lanes) for each warp that takes part."""
        if self.whole:
            first = int(self.threads[0]) // WARP
            return [(first + n, FULL) for n in range(self.threads.size // WARP)]
        warps = self.threads // WARP
        sums = np.bincount(warps, weights=_BITS[self.threads % WARP].astype(np.float64))
        return [(warp, int(sums[warp])) for warp in np.unique(warps).tolist()]

    def rows(self, values: Array) -> dict[int, Array]:
        """Values of these lanes by warp, as rows of 32 with −1 where a lane is inactive; more axes may follow."""
        warps = self.threads // WARP
        first, count = int(warps[0]), int(warps[-1]) - int(warps[0]) + 1
        if self.whole:
            table = values.reshape(count, WARP, *values.shape[1:])
            return {first + n: table[n] for n in range(count)}
        table = np.full((count * WARP, *values.shape[1:]), -1, np.int64)
        table[self.threads - first * WARP] = values
        table = table.reshape(count, WARP, *values.shape[1:])
        return {warp: table[warp - first] for warp in np.unique(warps).tolist()}


def traced_lanes(state: WaveState, lanes: Lanes, block: int) -> TracedLanes | None:
    """The lanes of block number ``block`` of the wave; None if the step has none."""
    threads = state.wave.threads
    low, high = block * threads, (block + 1) * threads
    if isinstance(lanes, slice):
        start, stop, _ = lanes.indices(state.wave.lanes)
        first, last = max(start, low), min(stop, high)
        if first >= last:
            return None
        return TracedLanes(slice(first - start, last - start), np.arange(first - low, last - low))
    begin, end = np.searchsorted(lanes, (low, high))
    if begin == end:
        return None
    return TracedLanes(slice(int(begin), int(end)), lanes[begin:end] - low)
