"""Sets of lanes that are equal runs, each at the same place of a block or warp: the consumer warps of some blocks.

NumPy reads and writes such lanes several times as fast by slices of a reshaped register as by their numbers. Lanes that
go together stay one object until they part or meet others, so what a set looks like is found once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.ptx.types import Array

_MANY = 1024  # lanes of a set that is worth looking at when it comes first
_OFTEN = 8  # times that a smaller one must come, so that looking at it pays
_KEPT = 16  # sets that are remembered: roles of warps take turns
_WORTH = 16  # lanes of a run, where several runs are copied


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of ``length`` lanes from lane ``offset`` of some periods of ``period`` lanes: of those that ``which`` names,
    which are ``count``."""

    which: slice | Array
    count: int
    offset: int
    length: int
    period: int

    def seen(self, table: Array, rows: Any) -> Array:
        """A view of these registers, where ``which`` is a slice: runs, and lanes of a run."""
        found: Array = table.reshape(table.shape[0], -1, self.period)[self._index(rows)]
        return found

    def get(self, table: Array, rows: Any) -> Array:
        """Registers of these lanes: of one row, or one row for each."""
        found = self.seen(table, rows)
        return found.reshape(*found.shape[:-2], self.count * self.length)

    def put(self, table: Array, rows: Any, values: Any) -> bool:
        """Write registers of these lanes; whether ``values`` has the form of all lanes or of one for all."""
        if isinstance(values, np.ndarray) and values.ndim:
            if values.shape[-1] != self.count * self.length:
                return False
            values = values.reshape(*values.shape[:-1], self.count, self.length)
        table.reshape(table.shape[0], -1, self.period)[self._index(rows)] = values
        return True

    def _index(self, rows: Any) -> tuple[Any, ...]:
        if isinstance(rows, np.ndarray) and isinstance(self.which, np.ndarray):
            rows = rows[:, None]
        return rows, self.which, slice(self.offset, self.offset + self.length)


class RunsOfLanes:
    """The runs of sets of lanes of one wave: ``threads`` of each block, ``lanes`` in all."""

    def __init__(self, lanes: int, threads: int) -> None:
        self._lanes, self._threads = lanes, threads
        self._known: dict[int, tuple[Array, Runs | None]] = {}  # by identity, which the array here keeps
        self._small: dict[int, tuple[Array, int]] = {}  # sets that came less often, and how often

    def of(self, lanes: Array) -> Runs | None:
        """The runs of a set of lanes, in ascending order; None if it has none that are worth it."""
        known = self._known.get(id(lanes))
        if known is not None:
            return known[1]
        if lanes.size < _MANY and not self._comes_often(lanes):
            return None
        found = runs_of(lanes, self._lanes, self._threads)
        if len(self._known) >= _KEPT:
            del self._known[next(iter(self._known))]
        self._known[id(lanes)] = lanes, found
        return found

    def _comes_often(self, lanes: Array) -> bool:
        _, times = self._small.pop(id(lanes), (lanes, 0))
        if times + 1 >= _OFTEN:
            return True
        if len(self._small) >= _KEPT:
            del self._small[next(iter(self._small))]
        self._small[id(lanes)] = lanes, times + 1
        return False


def runs_of(lanes: Array, total: int, threads: int) -> Runs | None:
    """The runs of which these lanes consist: at equal distances, or at the same place of some blocks."""
    ends = np.flatnonzero(np.diff(lanes) != 1)
    count = ends.size + 1
    length = lanes.size // count
    if count == 1 or lanes.size % count:
        return None
    starts = lanes[::length]
    if (lanes[length - 1 :: length] - starts != length - 1).any():
        return None
    start, period = int(starts[0]), int(starts[1] - starts[0])
    first, offset = divmod(start, period)
    if total % period == 0 and offset + length <= period and (np.diff(starts) == period).all():
        return Runs(slice(first, first + count), count, offset, length, period)
    which, offsets = np.divmod(starts, threads)
    offset = int(offsets[0])
    if length < _WORTH or (offsets != offset).any() or offset + length > threads:
        return None
    return Runs(which, count, offset, length, threads)
