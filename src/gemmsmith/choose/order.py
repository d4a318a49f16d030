"""Which outputs are stored at once, by the order of tiles (GROUP).

Tiles run in groups of GROUP rows of tiles, down a group's columns. What a wave stores is so many rows of C, each so
many bytes long. Long pieces of rows are stored faster: of products that mostly store, twice as large a GROUP takes 1 to
3 % longer on an H200, and 1 to 2 % less long where tiles are of the transposed product
(docs/log/2026-11-18-orders-that-store.md).
"""

from __future__ import annotations

import numpy as np

from gemmsmith.choose.columns import Column, Shapes, Tiles, ceil
from gemmsmith.choose.waves import TileGrid


def stored_at_once(shapes: Shapes, tiles: Tiles, grid: TileGrid, sms: Column) -> tuple[Column, Column]:
    """Bytes of a row of C that a wave stores, and the number of such rows."""
    t = tiles
    group = np.where(t.persistent > 0, np.minimum(t.group, grid.down), grid.down)
    columns = np.minimum(ceil(sms / group), grid.across)
    groups = ceil(sms / (group * columns))  # where the columns of one do not fill a wave
    rows, cols = np.minimum(groups * group * t.bm, grid.rows), np.minimum(columns * t.bn, grid.cols)
    swapped = t.swap > 0
    beside: Column = np.where(swapped, rows, cols) * shapes.out_bytes
    below: Column = np.where(swapped, cols, rows)
    return beside, below
