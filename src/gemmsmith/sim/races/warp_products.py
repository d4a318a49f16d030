"""Where the lanes of a warp multiplied matrices together: what each of them had read before then has been read.

``mma.sync`` takes registers of all lanes of a warp, and a lane goes on only when all have come to it. A write that
follows cannot overtake a read of another lane of the warp that came before. It orders nothing else: what a lane wrote
before is not for others to read without ``__syncwarp()``, and other warps know nothing of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import numpy as np

from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.lowering.operation import Operation

_TURN = 32  # bits for a position in the program


def _place(turn: int, position: int) -> int:
    """Where a warp is: how many ends of loops were written down, and the position since then."""
    return turn << _TURN | position


class WarpProducts:
    """The products of one wave's warps."""

    def __init__(self, state: WaveState) -> None:
        self._state = state
        self._done: list[tuple[int, tuple[int, ...], Lanes]] = []
        self._places: dict[int, list[int]] | None = None  # of each warp, in ascending order

    def multiplied(self, operations: Iterable[Operation[Any]], lanes: Lanes) -> None:
        """These lanes, of whole warps, multiplied."""
        self._done.append((len(self._state.trail), tuple([o.position for o in operations]), lanes))
        self._places = None

    def forget(self) -> None:
        """Nothing that comes can meet an access from before."""
        self._done, self._places = [], None

    def between(self, warp: int, first: tuple[int, int], second: tuple[int, int]) -> bool:
        """Whether a warp multiplied between two places, each a turn and a position."""
        places = self._by_warp().get(warp, [])
        after = bisect_right(places, _place(*first))
        return after < len(places) and places[after] < _place(*second)

    def _by_warp(self) -> dict[int, list[int]]:
        if self._places is None:
            found: dict[int, set[int]] = {}
            for turn, positions, lanes in self._done:
                for warp in np.unique(self._state.warp[lanes]).tolist():
                    found.setdefault(warp, set()).update(_place(turn, position) for position in positions)
            self._places = {warp: sorted(places) for warp, places in found.items()}
        return self._places
