"""Rows and columns of C that no block writes, where only some blocks were run."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsmith.verify.oracles.covered import left_out


def _written(shape: tuple[int, int], *tiles: tuple[int, int, int, int]) -> np.ndarray:
    found = np.zeros(shape, np.bool_)
    for row, column, rows, columns in tiles:
        found[row : row + rows, column : column + columns] = True
    return found


def test_a_grid_that_ends_before_c() -> None:
    """Three by three blocks of 16 for 64 rows and columns; the first, one between and the last were run."""
    found = left_out(_written((64, 64), (0, 0, 16, 16), (16, 16, 16, 16), (32, 32, 16, 16)), 9)
    assert found[48:].all()
    assert found[:, 48:].all()
    assert not found[:48, :48].any()


@pytest.mark.parametrize("order", ["by rows", "from the other end"])
def test_partial_tiles_are_no_small_ones(order: str) -> None:
    """Five by five blocks of 16 for 65 rows and columns, in two orders: most of those that were run are partial, and
    the corner of C may be the tile of another."""
    tiles = [(0, 0, 16, 16), (64, 0, 1, 16), (64, 16, 1, 16), (64, 32, 1, 16)]
    if order == "by rows":
        tiles.append((64, 64, 1, 1))
    found = left_out(_written((65, 65), *tiles), 25)
    assert not found.any()


def test_blocks_may_take_tiles_in_any_order() -> None:
    """Only where there are too few of them is anything left out."""
    written = _written((4, 8), (0, 0, 2, 4))  # one block of eight elements
    assert not left_out(written, 4).any()
    assert left_out(written, 3).sum() == 32 - 8
