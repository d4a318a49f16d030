"""Predicted time of a wgmma kernel on Hopper: to choose where nothing was timed, and to decide what to time first.

    launch + align_copy + max(waves of tiles: k-steps x the slowest of tensor cores, L2, SM ingress and load latency,
                              plus the reduction of split accumulators and the epilogue;
                              DRAM traffic;
                              energy of products and of bytes from L2, at the power cap)

The arithmetic is that of the kernels. The constants are fitted to measured times (``Constants``, choose/fit.py); others
are set by hand (choose/cost_data.py). Only the order of predictions for one shape matters for the choice; the
fit's error is kept with it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gemmsmith.choose.columns import Column, Shapes, Tiles, ceil
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.cost_data import wgmma_costs
from gemmsmith.choose.features import features
from gemmsmith.choose.inputs import inputs
from gemmsmith.choose.tile_time import dram_reads, rows_from_l2, soft_maximum, tile_seconds
from gemmsmith.choose.waves import Chip, resident_blocks, tile_grid, used_sms, waves_by_width
from gemmsmith.ladder.families.hopper import BOX_ROW

# Of the fastest prediction, and at most so many: what is further away is not worth the time to correct.
_CORRECTED, _MOST_CORRECTED = 1.4, 128
# Of the networks beside the trees. At 356 testing shapes with current kernels 0.5, 0.75 and 1 lose 1.73, 1.54 and
# 1.53 %, and 20, 17 and 17 of them more than 8 %.
NETWORKS_WEIGH = 0.75
# Of the networks for few rows or columns beside those and the trees: 124 testing shapes lose 1.4 % to the best timed
# configuration, without these networks 1.7 % (benchmarks/fit_choice.py).
FEW_NETWORKS_WEIGH = 0.5


def corrected_seconds(shapes: Shapes, tiles: Tiles, chip: Chip, constants: Constants, seconds: Column, fastest: float
                      ) -> Column:  # fmt: skip
    """Predicted seconds of one problem's configurations, corrected where the model has corrections: only those near
    ``fastest``, because correcting takes time."""
    if constants.trees is None:
        return seconds
    near = np.flatnonzero(seconds <= fastest * _CORRECTED)
    if len(near) > _MOST_CORRECTED:
        near = near[np.argpartition(seconds[near], _MOST_CORRECTED)[:_MOST_CORRECTED]]
    result: Column = seconds.copy()
    result[near] = seconds[near] * np.exp(correction(shapes, tiles.at(near), chip, constants, seconds[near]))
    return result


def correction(shapes: Shapes, tiles: Tiles, chip: Chip, constants: Constants, seconds: Column) -> Column:
    """What is added to the logarithm of predicted ``seconds``: what trees say or, of aligned problems, a mean of
    trees and networks; with few rows or columns also of networks that were fitted to such problems alone. Networks were
    fitted to aligned problems, and extrapolate badly; trees do not extrapolate."""
    if constants.trees is None:
        return np.zeros_like(seconds)
    values = features(shapes, tiles, chip, seconds)
    found = constants.trees(values)
    if constants.networks is None or np.any(shapes.unaligned_a + shapes.unaligned_b + shapes.unaligned_c):
        return found
    asked = inputs(shapes, tiles, chip, constants, seconds, values)
    result: Column = (1 - NETWORKS_WEIGH) * found + NETWORKS_WEIGH * constants.networks(asked)
    if constants.few_networks is not None and np.any(shapes.are_few):
        mixed = (1 - FEW_NETWORKS_WEIGH) * result + FEW_NETWORKS_WEIGH * constants.few_networks(asked)
        result = np.where(shapes.are_few, mixed, result)
    return result


def predicted_seconds(shapes: Shapes, tiles: Tiles, chip: Chip, constants: Constants) -> Column:
    """Seconds of each configuration on its problem, launched from a CUDA graph with cold caches."""
    c, t, fixed = constants, tiles, wgmma_costs()
    grid = tile_grid(shapes, tiles)
    rows, cols, work, steps = grid.rows, grid.cols, grid.work, grid.steps

    sms = used_sms(tiles, chip)
    resident = np.where(t.persistent > 0, 1, resident_blocks(tiles, chip))
    together = np.minimum(resident, ceil(work / sms))  # blocks that share an SM
    waves = ceil(work / (sms * resident))
    busy = np.minimum(sms, work)
    tile = tile_seconds(shapes, tiles, chip, constants, together, busy, steps)
    on_sms = c.latency + waves * tile
    if np.any(t.tail_bn):
        tail = replace(tiles, bn=np.where(t.tail_bn > 0, t.tail_bn, t.bn))
        wide, after = waves_by_width(shapes, tiles, chip)
        mixed = wide * tile + after * tile_seconds(shapes, tail, chip, constants, together, busy, steps)
        on_sms = np.where(t.tail_bn > 0, c.latency + mixed, on_sms)

    inputs = (rows + cols) * shapes.k * 2.0 * shapes.batch
    outputs = rows * cols * shapes.batch * shapes.out_bytes
    on_sms = on_sms + outputs / waves / c.drain  # all SMs store the last wave together, and nothing else happens
    traffic = np.maximum(inputs, dram_reads(shapes, tiles, grid, sms * resident, chip)) + outputs
    copied = t.copied_bytes(shapes)
    align_copy = np.where(copied > 0, fixed.align_copy + c.launch + 2.0 * copied / c.dram, 0.0)
    clusters = np.where(t.clusters > 1, fixed.cluster_reduction, 0.0) + np.where(
        t.cluster_m * t.cluster_n * t.cluster_k > 1, fixed.cluster_launch, 0.0
    )
    clusters = clusters + np.where(t.slices > 1, c.slices, 0.0)
    from_l2 = work * steps * BOX_ROW * rows_from_l2(shapes, tiles)
    capped = 2.0 * shapes.m * shapes.n * shapes.k * shapes.batch / c.capped_flops
    capped = capped + from_l2 / c.capped_bytes + traffic / c.capped_dram
    total: Column = c.launch + clusters + soft_maximum(on_sms, traffic / c.dram, capped) + align_copy
    return total
