"""The other blocks in outline: rows and columns of each array that a block loads and stores, and its work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gemmsmith.sim.ptx.types import Array as Numbers
from gemmsmith.sim.wave import Size, triple
from gemmsmith.trace.launch_trace import Array, Box, Outline
from gemmsmith.trace.recording.fed import places
from gemmsmith.trace.recording.work_parts import Extent, copied_parts, joined, paired

_FAR = np.iinfo(np.int64).max
_MOST_ROUNDS = 64  # a block that stores more often between loads has no parts


class Outlines:
    """First and last row and column of every array, for each block of the grid.

    Loads are kept by round: a block begins a new one with the first load after a store to global memory. So a block
    that works on one tile after another has a round for each. Copies by TMA may run ahead of the stores; they are kept
    in their order, and ``work_parts.py`` finds where the next tile begins.
    """

    def __init__(self, arrays: Sequence[Array], grid: Size) -> None:
        self.arrays, self.grid = tuple(arrays), grid
        self.blocks = grid[0] * grid[1] * grid[2]
        self._stored = [_Limits(self.blocks) for _ in self.arrays]
        self._loaded: list[list[_Limits]] = [[] for _ in self.arrays]
        self._round = np.zeros(self.blocks, np.int64)
        self._has_loads = np.zeros(self.blocks, bool)
        self._copied: dict[tuple[int, int], dict[int, list[Extent]]] = {}  # by array and block, then by who copies
        self.seen = np.zeros(self.blocks, bool)

    def touch_by_block(self, blocks: Numbers, addresses: Numbers, stores: bool) -> None:
        """The same for addresses (accesses, blocks, threads) of whole blocks."""
        for n, array in enumerate(self.arrays):
            if addresses.min() < array.address or addresses.max() >= array.address + array.nbytes:
                continue
            self.seen[blocks] = True
            found = places(array, addresses)
            lows, highs = ([op(values, axis=(0, 2)) for values in found] for op in (np.min, np.max))
            for which, limits in self._limits(n, blocks, stores):
                limits.widen(blocks[which], [low[which] for low in lows], [high[which] for high in highs])
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
            if not mine.any():
                continue
            blocks_of, found = blocks[mine], places(array, addresses[mine])
            for which, limits in self._limits(n, blocks_of, stores):
                limits.widen_each(blocks_of[which], [values[which] for values in found])

    def copied(self, issuer: int, receivers: Sequence[int], addresses: Numbers) -> None:
        """TMA copies elements for the blocks ``receivers``; the block that asks for them is the one that loads."""
        self.touch(np.full(addresses.size, issuer), addresses, stores=False)
        first = int(addresses.min())
        n = next((n for n, each in enumerate(self.arrays) if each.address <= first < each.address + each.nbytes), None)
        if n is not None:
            rows, columns = places(self.arrays[n], addresses)
            extent = Extent(int(rows.min()), int(rows.max()), int(columns.min()), int(columns.max()))
            for block in receivers:
                self.seen[block] = True
                self._copied.setdefault((n, block), {}).setdefault(issuer, []).append(extent)

    def made(self) -> tuple[Outline, ...]:
        return tuple(Outline(triple(block, self.grid), self._all_loaded(block), self._all_stored(block),
                             self._parts(block)) for block in np.flatnonzero(self.seen).tolist())  # fmt: skip

    def _limits(self, n: int, blocks: Numbers, stores: bool) -> list[tuple[Numbers, _Limits]]:
        """Where an access of array ``n`` is noted, for each group of blocks, as indices into ``blocks``."""
        everything = np.arange(blocks.size)
        if stores:
            self._round[blocks] = np.minimum(self._round[blocks] + self._has_loads[blocks], _MOST_ROUNDS)
            self._has_loads[blocks] = False
            return [(everything, self._stored[n])]
        self._has_loads[blocks] = True
        rounds, kept = self._round[blocks], self._loaded[n]
        while len(kept) <= int(rounds.max()):
            kept.append(_Limits(self.blocks))
        return [(everything if rounds.min() == rounds.max() else np.flatnonzero(rounds == number), kept[number])
                for number in np.unique(rounds).tolist()]  # fmt: skip

    def _all_loaded(self, block: int) -> tuple[Box, ...]:
        found = []
        for array, rounds in zip(self.arrays, self._loaded, strict=True):
            extents = [extent for limits in rounds if (extent := limits.of(block)) is not None]
            if extents:
                found.append(_box(array, joined(extents)))
        return tuple(found)

    def _all_stored(self, block: int) -> tuple[Box, ...]:
        return tuple(_box(array, extent) for array, limits in zip(self.arrays, self._stored, strict=True)
                     if (extent := limits.of(block)) is not None)  # fmt: skip

    def _parts(self, block: int) -> tuple[tuple[int, ...], ...]:
        """What the block multiplies: rows of A, columns of B, and the part of k. Empty if that is not clear."""
        found: dict[str, list[Extent]] = {}
        for n, (array, rounds) in enumerate(zip(self.arrays, self._loaded, strict=True)):
            if array.role == "C" and (stored := self._stored[n].of(block)) is not None:
                found["C"] = [stored]
            elif (n, block) in self._copied and array.role in ("A", "B"):
                found[array.role] = copied_parts(self._copied[n, block].values(), 1 if array.role == "A" else 0)
            elif len(rounds) <= _MOST_ROUNDS and array.role in ("A", "B"):
                found[array.role] = [extent for limits in rounds if (extent := limits.of(block)) is not None]
        return paired(found.get("A", []), found.get("B", []), found.get("C", []))


class _Limits:
    """First and last row and column of one array, for each block."""

    def __init__(self, blocks: int) -> None:
        self.low = np.full((blocks, 2), _FAR, np.int64)
        self.high = np.full((blocks, 2), -1, np.int64)

    def widen(self, blocks: Numbers, lows: Sequence[Numbers], highs: Sequence[Numbers]) -> None:
        """One value for each block, along rows and columns."""
        for axis, (low, high) in enumerate(zip(lows, highs, strict=True)):
            self.low[blocks, axis] = np.minimum(self.low[blocks, axis], low)
            self.high[blocks, axis] = np.maximum(self.high[blocks, axis], high)

    def widen_each(self, blocks: Numbers, found: Sequence[Numbers]) -> None:
        """Many values for a block."""
        for axis, values in enumerate(found):
            np.minimum.at(self.low[:, axis], blocks, values)
            np.maximum.at(self.high[:, axis], blocks, values)

    def of(self, block: int) -> Extent | None:
        low, high = self.low[block], self.high[block]
        return Extent(int(low[0]), int(high[0]), int(low[1]), int(high[1])) if high[0] >= 0 else None


def _box(array: Array, extent: Extent) -> Box:
    return Box(array.name, extent.first_row, extent.last_row, extent.first_column, extent.last_column)
