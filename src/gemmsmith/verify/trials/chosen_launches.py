"""The sizes from which on host code chooses another launch: more parts of K, a larger block, more stages."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

ASKED_TILES = (3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # along one extent, for which a launch is asked
REST = 7  # beyond such a size: what is divided among parts rounds up or down
_MOST_VALUES = 5  # of a number of a launch that does not grow with the extent
_MOST_LAUNCHES = 4  # along one extent


def launch_changes(launch: Callable[[int], tuple[float, ...] | None]) -> list[int]:
    """The numbers of tiles from which on one of the numbers of a ``launch`` is another: not of what grows with every
    few tiles. The largest come first; ``launch`` gives None where there is none."""
    asked = [(tiles, found) for tiles in (1, 2, *ASKED_TILES) if (found := launch(tiles)) is not None]
    changes = set[int]()
    for place in range(len(asked[0][1]) if asked else 0):
        if not 1 < len({numbers[place] for _, numbers in asked}) <= _MOST_VALUES:
            continue
        for (low, before), (high, after) in pairwise(asked):
            if before[place] != after[place]:
                between = ((tiles, launch(tiles)) for tiles in range(low + 1, high))
                first = (tiles for tiles, own in between if own is not None and own[place] == after[place])
                changes.add(next(first, high))
    return sorted(changes, reverse=True)[:_MOST_LAUNCHES]
