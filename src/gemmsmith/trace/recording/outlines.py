"""The other blocks in outline: which rows and columns of each array a block loads and stores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gemmsmith.sim.types import Array as Numbers
from gemmsmith.sim.wave import Size, triple
from gemmsmith.trace.launch_trace import Array, Box, Outline
from gemmsmith.trace.recording.fed import places

_FAR = np.iinfo(np.int64).max


class Outlines:
    """First and last row and column of every array, for each block of the grid."""

    def __init__(self, arrays: Sequence[Array], grid: Size) -> None:
        self.arrays, self.grid = tuple(arrays), grid
        blocks = grid[0] * grid[1] * grid[2]
        self._low = np.full((2, len(self.arrays), blocks, 2), _FAR, np.int64)
        self._high = np.full((2, len(self.arrays), blocks, 2), -1, np.int64)
        self.seen = np.zeros(blocks, bool)

    def touch_by_block(self, blocks: Numbers, addresses: Numbers, stores: bool) -> None:
        """The same for addresses (accesses, blocks, threads) of whole blocks."""
        for n, array in enumerate(self.arrays):
            if addresses.min() < array.address or addresses.max() >= array.address + array.nbytes:
                continue
            self.seen[blocks] = True
            low, high = self._low[int(stores), n], self._high[int(stores), n]
            for axis, values in enumerate(places(array, addresses)):
                low[blocks, axis] = np.minimum(low[blocks, axis], values.min(axis=(0, 2)))
                high[blocks, axis] = np.maximum(high[blocks, axis], values.max(axis=(0, 2)))
            return
        which = np.broadcast_to(blocks[None, :, None], addresses.shape)
        self.touch(which.reshape(-1), addresses.reshape(-1), stores)

    def touch(self, blocks: Numbers, addresses: Numbers, stores: bool) -> None:
        """Blocks, by their numbers, access addresses of global memory; both of one shape."""
        self.seen[blocks] = True
        low, high = int(addresses.min()), int(addresses.max())
        for n, array in enumerate(self.arrays):
            if high < array.address or low >= array.address + array.nbytes:
                continue
            mine = (addresses >= array.address) & (addresses < array.address + array.nbytes)
            which = blocks[mine]
            for axis, values in enumerate(places(array, addresses[mine])):
                np.minimum.at(self._low[int(stores), n, :, axis], which, values)
                np.maximum.at(self._high[int(stores), n, :, axis], which, values)

    def made(self) -> tuple[Outline, ...]:
        return tuple(Outline(triple(block, self.grid), self._boxes(0, block), self._boxes(1, block))
                     for block in np.flatnonzero(self.seen).tolist())  # fmt: skip

    def _boxes(self, which: int, block: int) -> tuple[Box, ...]:
        found = []
        for n, array in enumerate(self.arrays):
            low, high = self._low[which, n, block], self._high[which, n, block]
            if high[0] >= 0:
                found.append(Box(array.name, int(low[0]), int(high[0]), int(low[1]), int(high[1])))
        return tuple(found)
