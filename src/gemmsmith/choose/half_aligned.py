"""Rows that start on 16 bytes, but not on 32: what TMA needs for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.choose.columns import Column, Shapes, Tiles, ceil
from gemmsmith.choose.cost_data import wgmma_costs
from gemmsmith.ladder.families.hopper import BOX


def half_aligned_seconds(shapes: Shapes, tiles: Tiles) -> Column:
    """TMA time of an SM for a block's part of a k-tile where rows are half aligned.

    Each 128 bytes of a row take the same time, one after another: once per row of the tile or, for an MN-major operand,
    once per row of k in each box. What another block of the cluster multicasts costs this one nothing.
    """

    def pieces(side: Column, mn_major: Any) -> Column:
        return np.where(mn_major, np.minimum(BOX, shapes.k) * ceil(side / BOX), side)

    swapped = tiles.swap > 0
    rows = np.minimum(np.where(swapped, tiles.bn, tiles.bm), shapes.m)
    cols = np.minimum(np.where(swapped, tiles.bm, tiles.bn), shapes.n)
    of_a = pieces(rows, shapes.mn_major_a) / np.where(swapped, tiles.cluster_m, tiles.cluster_n)
    of_b = pieces(cols, shapes.mn_major_b) / np.where(swapped, tiles.cluster_n, tiles.cluster_m)
    both = shapes.half_aligned_a * of_a + shapes.half_aligned_b * of_b
    result: Column = both * wgmma_costs().half_aligned_row
    return result
