"""Which rows and columns of the arrays each thread's arithmetic consumed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gemmsmith.sim.ptx.types import Array as Numbers
from gemmsmith.trace.launch_trace import Array, Fed

_MOST_NUMBERS = 200_000  # of rows and columns of one array, over all sets; beyond that it is left out


class Consumed:
    """One flag for each thread and row, and for each thread and column, of every array."""

    def __init__(self, arrays: Sequence[Array], threads: int) -> None:
        self.arrays = tuple(arrays)
        self._rows = [np.zeros((threads, max(1, each.rows)), bool) for each in self.arrays]
        self._columns = [np.zeros((threads, max(1, each.columns)), bool) for each in self.arrays]

    def use(self, threads: Numbers, tags: Numbers) -> None:
        """Threads use elements: ``tags`` is (…, threads), addresses or 0."""
        who = np.broadcast_to(threads, tags.shape)
        for array, rows, columns in zip(self.arrays, self._rows, self._columns, strict=True):
            mine = (tags >= array.address) & (tags < array.address + array.nbytes)
            if not mine.any():
                continue
            row, column = places(array, tags[mine])
            inside = (row < rows.shape[1]) & (column < columns.shape[1])
            rows[who[mine][inside], row[inside]] = True
            columns[who[mine][inside], column[inside]] = True

    def fed(self) -> tuple[Fed, ...]:
        """Equal sets are kept once."""
        found = []
        for array, rows, columns in zip(self.arrays, self._rows, self._columns, strict=True):
            if not rows.any():
                continue
            known: dict[bytes, int] = {}
            sets: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
            by_thread = []
            for row, column in zip(np.packbits(rows, axis=1), np.packbits(columns, axis=1), strict=True):
                key = row.tobytes() + column.tobytes()
                if key not in known:
                    known[key] = len(sets)
                    sets.append((_numbers(row, rows.shape[1]), _numbers(column, columns.shape[1])))
                by_thread.append(known[key])
            if sum(len(a) + len(b) for a, b in sets) <= _MOST_NUMBERS:
                found.append(Fed(array.name, tuple(sets), tuple(by_thread)))
        return tuple(found)


def _numbers(bits: Numbers, count: int) -> tuple[int, ...]:
    return tuple(np.flatnonzero(np.unpackbits(bits)[:count]).tolist())


def places(array: Array, addresses: Numbers) -> tuple[Numbers, Numbers]:
    """(rows, columns) of the elements at addresses."""
    element = (addresses.astype(np.int64) - array.address) // array.itemsize
    wide, narrow = max(array.row_stride, array.column_stride, 1), max(1, min(array.row_stride, array.column_stride))
    far, near = element // wide, element % wide // narrow
    return (far, near) if array.row_stride >= array.column_stride else (near, far)
