"""How many lines of 128 bytes TMA asks L2 for: a box whose rows do not start on lines touches one more for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.choose.columns import Column, Shapes, Tiles
from gemmsmith.choose.half_aligned import mn_major_second
from gemmsmith.ladder.families.hopper import BOX

_LEAST = 8  # 16-bit elements: 16 bytes


def lines_of_boxes(shapes: Shapes, tiles: Tiles) -> tuple[Column, Column]:
    """Lines for a k-tile of the first and of the second operand of a block, without what others multicast to it."""
    t, swapped = tiles, tiles.swap > 0
    m, n, k = (np.asarray(extent, np.float64) for extent in (shapes.m, shapes.n, shapes.k))
    rows, cols = np.where(swapped, n, m), np.where(swapped, m, n)
    first_mn = np.where(swapped, shapes.mn_major_b, shapes.mn_major_a) > 0
    first = np.where(first_mn, _across_k(t.bm, rows), _along_k(t.bm, k))
    second = np.where(mn_major_second(shapes, tiles), _across_k(t.bn, cols), _along_k(t.bn, k))
    return first / t.cluster_n, second / t.cluster_m


def _along_k(side: Column, k: Any) -> Column:
    """A row of the tile is one of a box, and starts where a row of the matrix does."""
    result: Column = side * _lines(BOX, _aligned(k))
    return result


def _across_k(side: Column, extent: Any) -> Column:
    """Boxes of 64 columns beside each other for each of 64 k; the last one may be narrower."""
    several = extent > side
    start = np.minimum(_aligned(extent), np.where(several, _aligned(side), BOX))
    whole, rest = np.floor(side / BOX), side % BOX
    result: Column = BOX * (whole * _lines(BOX, start) + np.where(rest > 0, _lines(rest, start), 0.0))
    return result


def _lines(width: Any, start: Any) -> Any:
    """Lines that ``width`` elements touch in the mean, if they start anywhere on multiples of ``start``."""
    return np.maximum(1.0, 1.0 + (width - start) / BOX)


def _aligned(extent: Any) -> Any:
    """The largest power of two, from 16 to 128 bytes, that divides an extent."""
    whole = np.asarray(extent).astype(np.int64)
    return np.clip(whole & -whole, _LEAST, BOX)
