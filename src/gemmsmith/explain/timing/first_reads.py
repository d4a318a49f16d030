"""Which blocks are the first to read their rows of A or columns of B, and so wait for DRAM.

Blocks that run together and share a row or a column of tiles stay together: the one in front waits for DRAM, those
behind find in L2 what it fetched, and catch up. So all of them go as fast as DRAM lets the first
(h200_shared_panels.json: with 400 cycles of random delay in every step of every block they take as long). What blocks
of an earlier round read is in L2, unless more than L2 holds was read since: up to the same k, so that what the earlier
round read itself counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gemmsmith.problem import ceil_div
from gemmsmith.sim.ptx.types import Array

L2_SHARE = 0.9  # of L2 that operands have


class FirstReads(NamedTuple):
    """One round. ``blocks``: the share that waits for DRAM; ``data``: of what all its blocks get, what DRAM gives."""

    blocks: float
    data: float


def first_readers(blocks: int, together: int, across: int, group: int, tile: tuple[float, float],
                  kept: float) -> list[FirstReads]:  # fmt: skip
    """Of each round of ``together`` blocks, how many read a row or a column of tiles which is not in L2, and how much.

    DRAM gives a row or a column once, also where many blocks of the round read it.

    ``across``: tiles in a row of C. ``group``: rows of tiles that blocks go through column by column; 0: one row after
    the other. ``tile``: its rows and columns. ``kept``: rows of A and columns of B that L2 holds, of the whole K.
    """
    rows, columns = _places(blocks, max(1, across), group)
    read = (
        np.full(int(rows.max()) + 1, -np.inf),
        np.full(int(columns.max()) + 1, -np.inf),
    )  # how much had been read before
    total, found = 0.0, []
    for part in _rounds(blocks, together):
        mine = rows[part], columns[part]
        new = np.zeros(mine[0].size, bool)
        given = 0.0
        for places, when, extent in zip(mine, read, tile, strict=True):
            missing = total - when[places] > kept
            new |= missing
            given += np.unique(places[missing]).size * extent
        found.append(FirstReads(float(new.mean()), given / (new.size * sum(tile))))
        different = [np.unique(places) for places in mine]
        for places, when in zip(different, read, strict=True):
            when[places] = total
        total += sum(places.size * extent for places, extent in zip(different, tile, strict=True))
    return found


def _places(blocks: int, across: int, group: int) -> tuple[Array, Array]:
    """The row and the column of tiles of each block, in the order in which blocks start."""
    number = np.arange(blocks)
    if not group:
        return number // across, number % across
    down = ceil_div(blocks, across)
    band, inside = number // (group * across), number % (group * across)
    rows = np.maximum(1, np.minimum(group, down - band * group))
    return band * group + inside % rows, inside // rows


def _rounds(blocks: int, together: int) -> Iterator[slice]:
    for start in range(0, blocks, together):
        yield slice(start, min(blocks, start + together))
