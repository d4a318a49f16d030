"""The grid of a launch that passes one value for several extents, ``k<<<grid, block>>>(A, B, C, n, n, n)``.

Such host code tells the grid of squares alone. How many blocks squares of many sizes get tells the tile; blocks of that
tile then cover any M and N. Whether x goes along rows or columns, a square does not tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gemmsmith.kernel.geometry import Dim3
from gemmsmith.problem import ceil_div

_LARGE = 15 << 18  # a multiple of every usual tile
_MOST = 4096  # rows or columns of a tile
_SMALL = 3 * _MOST  # at least one block, also where the number is rounded down
SquareGrid = Callable[[int], Dim3]


@dataclass(frozen=True)
class TileGrid:
    """One block for each tile of x times y elements; 0: that axis has ``others`` blocks, whatever the extents are.

    flat  all tiles are along x: "tiles" row by row, or "elements", x of them per block
    """

    x: int
    y: int
    others: Dim3
    flat: str = ""

    def __call__(self, m: int, n: int, x_walks_rows: bool) -> Dim3:
        along, down = (m, n) if x_walks_rows else (n, m)
        _, y, z = self.others
        if self.flat == "elements":
            return max(1, ceil_div(m * n, self.x)), y, z
        if self.flat:
            return max(1, ceil_div(along, self.x) * ceil_div(down, self.y)), y, z
        return (max(1, ceil_div(along, self.x)) if self.x else self.others[0],
                max(1, ceil_div(down, self.y)) if self.y else y, z)  # fmt: skip


def tile_grid(grid: SquareGrid) -> TileGrid | None:
    """The tile of a launch whose grid is known for squares; None where no tile explains it."""
    large = grid(_LARGE)
    one = grid(_SMALL)
    if large[2] != one[2]:
        return None
    along = [_linear(partial(_along, grid, axis)) for axis in (0, 1)]
    if None not in along and any(along):
        return TileGrid(along[0] or 0, along[1] or 0, one)
    if along[1] == 0 and (flat := _flat(partial(_along, grid, 0))) is not None:
        return TileGrid(flat[0], flat[0], one, flat[1])
    return None


def _along(grid: SquareGrid, axis: int, side: int) -> int:
    return grid(side)[axis]


def _linear(count: Callable[[int], int]) -> int | None:
    """Elements per block along an axis; 0 where it does not depend on them, None where no number explains it."""
    large = count(_LARGE)
    if large == count(_SMALL) and large == count(_LARGE // 3):
        return 0
    tile = _LARGE // large
    if not 0 < tile <= _MOST or ceil_div(_LARGE, tile) != large:
        return None
    return tile if _agree(count, lambda side: ceil_div(side, tile), lambda side: side // tile, tile) else None


def _flat(count: Callable[[int], int]) -> tuple[int, str] | None:
    """The side of a square tile, or the elements per block, where their number is counted along x."""
    total = _LARGE * _LARGE // count(_LARGE)
    side = math.isqrt(total)
    if side * side == total and 0 < side <= _MOST and _agree(
        count, lambda n: ceil_div(n, side) ** 2, lambda n: (n // side) ** 2, side
    ):  # fmt: skip
        return side, "tiles"
    if total > 0 and _agree(count, lambda n: ceil_div(n * n, total), lambda n: n * n // total, 32):
        return total, "elements"
    return None


def _agree(count: Callable[[int], int], up: Callable[[int], int], down: Callable[[int], int], tile: int) -> bool:
    """Whether the blocks of squares are counted so; a square that is no multiple of the tile is rounded up or down."""
    whole = all(count(tile * times) == up(tile * times) for times in (2, 3, 5, 7, 16))
    ragged = [tile * times + more for times in (3, 11) for more in (1, tile - 1) if tile > 1]
    return whole and any(all(count(side) == rule(side) for side in ragged) for rule in (up, down))
