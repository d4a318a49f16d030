"""Patterns of lanes: the same offsets come back in every warp and every k-tile, so each is kept once."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.ptx.types import Array

NOBODY = -1


_MOST_NUMBERS = 400_000  # in all patterns of a trace


class Patterns:
    """Every pattern of offsets that occurred, numbered in order of appearance."""

    def __init__(self) -> None:
        self._left = _MOST_NUMBERS
        self._numbers: dict[bytes, int] = {}
        self._rows: list[Array] = []

    def number(self, offsets: Array) -> int:
        """The number of a row of offsets; −1 for a new one of more than 32 when there are too many."""
        key = offsets.tobytes()
        found = self._numbers.get(key)
        if found is None:
            if self._left < offsets.size > 32:
                return NOBODY
            self._left -= offsets.size
            found = self._numbers[key] = len(self._rows)
            self._rows.append(offsets.copy())
        return found

    def split(self, values: Array) -> tuple[int, int]:
        """(pattern, base) of values of which −1 means none; (−1, −1) where all are."""
        active = values != NOBODY
        if not active.any():
            return NOBODY, NOBODY
        base = int(values[active].min())
        found = self.number(np.where(active, values - base, NOBODY))
        return (found, base) if found >= 0 else (NOBODY, NOBODY)

    def row(self, number: int) -> Array:
        return self._rows[number]

    def rows(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(row.tolist()) for row in self._rows)
