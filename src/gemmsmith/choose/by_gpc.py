"""Tiles by GPC: where blocks in clusters of two wait for an idle GPU, so that those of a GPC get tiles that share most.

SMs of a GPC that ask for the same lines at the same time share a request to the L2, unless they ask for other blocks of
their cluster as well. So the clusters of a GPC get tiles that share the operand which is not multicast: in clusters of
1 x 2 some columns of tiles. A launch that waits for an idle GPU is not hidden behind the one before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gemmsmith.choose.columns import Column, Shapes, Tiles
from gemmsmith.choose.waves import Chip, tile_grid, used_sms
from gemmsmith.kernel.config import Config
from gemmsmith.ladder.families.hopper import BOX

# Measured on an H200: tiles of up to so many outputs, for which L2 does not send fast enough, take a tenth less time
# and the launch more, with 64 pairs of blocks and three depths of K; with 48 and 50 pairs they gain more. Tiles of
# 128x128 and larger ones gain nothing, and with two 64-row tiles for each consumer a fifth is lost.
_MOST_OUTPUTS, _LEAST_PAIRS = 128 * 64, 48
_GAIN = 0.1
_LAUNCH = 1e-6  # seconds of a launch that is not hidden
_GROUP = 4  # rows of clusters that adjacent tiles have: those of a GPC are four rows by two columns
_LEAST_ROWS = 4


def tiles_by_gpc(shape: Shapes, tiles: Tiles, chip: Chip) -> NDArray[np.bool_]:
    """Which configurations may go by GPC: one wave in clusters of 1 x 2, without parts of K. Clusters of 2 x 1 gain
    less, or nothing."""
    grid = tile_grid(shape, tiles)
    pairs = (tiles.cluster_m == 1) & (tiles.cluster_n == 2) & (tiles.slices == 1) & (tiles.cluster_k == 1)
    pairs &= (tiles.split == 1) & (tiles.tail_bn == 0) & (tiles.depth == 1)
    small = (tiles.bm == BOX * tiles.consumers) & (tiles.bm * tiles.bn <= _MOST_OUTPUTS)
    one_wave = (grid.work >= 2 * _LEAST_PAIRS) & (grid.work <= used_sms(tiles, chip)) & (grid.down >= _LEAST_ROWS)
    result: NDArray[np.bool_] = pairs & small & one_wave
    return result


def seconds_by_gpc(shape: Shapes, tiles: Tiles, chip: Chip, seconds: Column) -> Column:
    """Predicted times with tiles by GPC, where that is worth it."""
    faster = seconds * (1 - _GAIN) + _LAUNCH
    result: Column = np.where(tiles_by_gpc(shape, tiles, chip), np.minimum(seconds, faster), seconds)
    return result


def ordered_by_gpc(config: Config) -> Config:
    return config.with_(SLICE_ORDER=2, GROUP=_GROUP)
