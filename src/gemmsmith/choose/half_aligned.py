"""Rows and tiles that start on 16 bytes, but not on 32: what TMA needs for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.choose.columns import Column, Shapes, Tiles, ceil
from gemmsmith.choose.cost_data import wgmma_costs
from gemmsmith.ladder.families.hopper import BOX

_ON_32_BYTES = 16  # 16-bit elements


def half_aligned_seconds(shapes: Shapes, tiles: Tiles, starts: Any = False) -> Column:
    """TMA time of an SM for a block's part of a k-tile where rows are half aligned or, of the second operand,
    ``starts`` says that the tile itself starts so.

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
    half_a = np.maximum(shapes.half_aligned_a, np.where(swapped, starts, False))
    half_b = np.maximum(shapes.half_aligned_b, np.where(swapped, False, starts))
    result: Column = (half_a * of_a + half_b * of_b) * wgmma_costs().half_aligned_row
    return result


def starts_half_aligned(shapes: Shapes, tiles: Tiles) -> NDArray[np.bool_]:
    """Whether every second tile of an MN-major second operand starts on 16 bytes but not on 32: at 592x4088x6104 TT
    tiles of 152 columns take 27 % longer than those of 160."""
    several = np.where(tiles.swap > 0, shapes.m, shapes.n) > tiles.bn
    result: NDArray[np.bool_] = mn_major_second(shapes, tiles) & several & (tiles.bn % _ON_32_BYTES > 0)
    return result


def mn_major_second(shapes: Shapes, tiles: Tiles) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = np.where(tiles.swap > 0, shapes.mn_major_a, shapes.mn_major_b) > 0
    return result
