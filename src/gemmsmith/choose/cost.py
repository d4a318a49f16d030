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

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from gemmsmith.choose.columns import Column, Shapes, Tiles, ceil
from gemmsmith.choose.cost_data import estimates, measured_gpu, wgmma_costs
from gemmsmith.choose.features import features
from gemmsmith.choose.half_aligned import half_aligned_seconds
from gemmsmith.choose.trees import Trees
from gemmsmith.choose.waves import Chip, TileGrid, resident_blocks, tile_grid, used_sms, waves_by_width
from gemmsmith.gpus import GPU, Wgmma, architecture, cuda_limits
from gemmsmith.ladder.families.hopper import BOX, BOX_ROW


def _estimate(name: str) -> Any:
    return field(default_factory=lambda: estimates()[name])


@dataclass(frozen=True)
class Constants:
    """The fitted constants, in Hz, seconds and bytes per second; tables/h200.toml says what each means.

    Without a value, a constant is the estimate that a fit starts from.
    """

    clock: float = _estimate("clock")
    dram: float = _estimate("dram")
    l2: float = _estimate("l2")
    ingress: float = _estimate("ingress")
    latency: float = _estimate("latency")
    step: float = _estimate("step")
    tile: float = _estimate("tile")
    store: float = _estimate("store")
    launch: float = _estimate("launch")
    reduction: float = _estimate("reduction")
    slices: float = _estimate("slices")
    partials: float = _estimate("partials")
    capped_flops: float = _estimate("capped_flops")
    capped_bytes: float = _estimate("capped_bytes")
    capped_dram: float = _estimate("capped_dram")
    output: float = _estimate("output")
    tma_store: float = _estimate("tma_store")
    direct: float = _estimate("direct")
    drain: float = _estimate("drain")
    trees: Trees | None = None  # corrections, not a constant; None where none were fitted


CONSTANTS = tuple(each.name for each in fields(Constants) if each.name != "trees")
# Of the fastest prediction, and at most so many: what is further away is not worth the time to correct.
_CORRECTED, _MOST_CORRECTED = 1.4, 128
_SECTOR_COLUMNS = 16  # 16-bit elements of the 32 bytes that memory sends at once


def with_memory_of(constants: Constants, gpu: GPU) -> Constants:
    """The H200's constants for a GPU with another DRAM, which is taken to reach the same share of its peak."""
    return replace(constants, dram=constants.dram * gpu.dram_gbs / measured_gpu().dram_gbs)


def corrected_seconds(shapes: Shapes, tiles: Tiles, chip: Chip, constants: Constants, seconds: Column, fastest: float
                      ) -> Column:  # fmt: skip
    """Predicted seconds of one problem's configurations, corrected by trees where the model has some: only those near
    ``fastest``, because correcting takes time."""
    if constants.trees is None:
        return seconds
    near = np.flatnonzero(seconds <= fastest * _CORRECTED)
    if len(near) > _MOST_CORRECTED:
        near = near[np.argpartition(seconds[near], _MOST_CORRECTED)[:_MOST_CORRECTED]]
    result: Column = seconds.copy()
    result[near] = seconds[near] * np.exp(constants.trees(features(shapes, tiles.at(near), chip, seconds[near])))
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
    tile = _tile_seconds(shapes, tiles, chip, constants, together, busy, steps)
    on_sms = c.latency + waves * tile
    if np.any(t.tail_bn):
        tail = replace(tiles, bn=np.where(t.tail_bn > 0, t.tail_bn, t.bn))
        wide, after = waves_by_width(shapes, tiles, chip)
        mixed = wide * tile + after * _tile_seconds(shapes, tail, chip, constants, together, busy, steps)
        on_sms = np.where(t.tail_bn > 0, c.latency + mixed, on_sms)

    inputs = (rows + cols) * shapes.k * 2.0 * shapes.batch
    outputs = rows * cols * shapes.batch * shapes.out_bytes
    on_sms = on_sms + outputs / waves / c.drain  # all SMs store the last wave together, and nothing else happens
    traffic = np.maximum(inputs, _dram_reads(shapes, tiles, grid, sms * resident, chip)) + outputs
    copied = t.copied_bytes(shapes)
    align_copy = np.where(copied > 0, fixed.align_copy + c.launch + 2.0 * copied / c.dram, 0.0)
    clusters = np.where(t.clusters > 1, fixed.cluster_reduction, 0.0) + np.where(
        t.cluster_m * t.cluster_n * t.cluster_k > 1, fixed.cluster_launch, 0.0
    )
    clusters = clusters + np.where(t.slices > 1, c.slices, 0.0)
    from_l2 = work * steps * BOX_ROW * _rows_from_l2(shapes, tiles)
    capped = 2.0 * shapes.m * shapes.n * shapes.k * shapes.batch / c.capped_flops
    capped = capped + from_l2 / c.capped_bytes + traffic / c.capped_dram
    total: Column = c.launch + clusters + _soft_maximum(on_sms, traffic / c.dram, capped) + align_copy
    return total


def _tile_seconds(shapes: Shapes, tiles: Tiles, chip: Chip, constants: Constants, together: Column, busy: Column,
                  steps: Column) -> Column:  # fmt: skip
    """One tile: its k-steps, the reduction and the epilogue. ``together`` blocks share an SM, ``busy`` SMs the L2."""
    c, t = constants, tiles
    step = _step_seconds(shapes, tiles, chip, constants, together, busy)
    outputs = t.bm * t.bn * together
    # A kernel that splits K reduces accumulators through shared memory, its own and its neighbours'.
    reduced = np.where(t.persistent > 0, 0.0, outputs * 4.0 / c.ingress)
    reduced = reduced + np.where(t.split > 1, c.reduction * outputs / wgmma_costs().reduced_accumulators, 0.0)
    reduced = reduced + np.where(
        t.clusters > 1, outputs / t.split * 4.0 * np.where(t.deterministic > 0, t.clusters, 1.0) / c.ingress, 0.0
    )
    in_cluster = np.where(t.send > 0, wgmma_costs().cluster_sums_sent, wgmma_costs().cluster_sums)
    in_cluster = in_cluster + outputs * 4.0 / wgmma_costs().cluster_sums_bandwidth
    reduced = reduced + np.where(t.cluster_k > 1, in_cluster, 0.0)
    reduced = reduced + np.where(t.slices > 1, 2.0 * outputs * 4.0 / c.partials, 0.0)  # written, and read once
    result: Column = steps * step + c.tile + reduced + _epilogue_seconds(shapes, tiles, constants, outputs)
    return result


def _step_seconds(shapes: Shapes, tiles: Tiles, chip: Chip, constants: Constants, together: Column,
                  busy: Column) -> Column:  # fmt: skip
    """One k-tile: the slowest of tensor cores, L2, SM ingress and load latency."""
    c, t, fixed, wgmma = constants, tiles, wgmma_costs(), _wgmma()
    k = wgmma.k_bytes // 2  # 16-bit elements
    # wgmma reads its operands from shared memory at 128 bytes a clock: 2 KB of A, and 32 bytes for each column of B.
    smem_clocks = wgmma.rows * wgmma.k_bytes / cuda_limits().wavefront_bytes
    smem_clocks_per_column = wgmma.k_bytes / cuda_limits().wavefront_bytes
    full_rate = 2 * wgmma.rows * k * t.bn / chip.flops_per_clock
    clocks = np.maximum(full_rate, smem_clocks + smem_clocks_per_column * t.bn)
    mma = t.bm / wgmma.rows * (BOX / k) * clocks / c.clock * together
    from_l2 = BOX_ROW * _rows_from_l2(shapes, tiles) * together * busy
    arriving = BOX_ROW * (t.bm + _loaded_columns(shapes, tiles)) * together
    in_flight = np.maximum(1, t.stages - 1) * t.depth  # k-tiles that are loaded while one stage is multiplied
    step = _soft_maximum(mma, from_l2 / c.l2, arriving / c.ingress, c.latency / in_flight)
    step = np.maximum(step, half_aligned_seconds(shapes, tiles) * together) + c.step / t.depth
    # Threads load an unaligned operand in whole sectors, through registers.
    loaded = BOX_ROW * t.bm * (1.0 + fixed.sector_overhead / t.depth) * together * np.minimum(1.0, shapes.k / BOX)
    result: Column = (
        step
        + np.where(t.unaligned > 0, loaded / fixed.unaligned_bandwidth, 0.0)
        + np.where(t.unaligned > 1, fixed.unaligned_wait / t.depth, 0.0)
    )
    return result


def _loaded_columns(shapes: Shapes, tiles: Tiles) -> Column:
    """Columns of the second operand that are loaded for a tile. Where it is not K-major, boxes of 64 columns; in
    wgmma_cluster the last one is as wide as it must be, in whole sectors."""
    t = tiles
    mn_major = np.where(t.swap > 0, shapes.mn_major_a, shapes.mn_major_b)
    last = np.where(t.persistent > 0, _SECTOR_COLUMNS, BOX)
    result: Column = np.where(mn_major > 0, last * ceil(t.bn / last), t.bn)
    return result


def _rows_from_l2(shapes: Shapes, tiles: Tiles) -> Column:
    """Rows of 64 of k, of both operands, that L2 sends to a block for each k-tile; others multicast the rest."""
    result: Column = tiles.bm / tiles.cluster_n + _loaded_columns(shapes, tiles) / tiles.cluster_m
    return result


def _epilogue_seconds(shapes: Shapes, tiles: Tiles, constants: Constants, outputs: Column) -> Column:
    """Storing a tile of C: by TMA, or by threads where its rows are unaligned."""
    t, fixed = tiles, wgmma_costs()
    stored = outputs / (t.split * t.cluster_k) * shapes.out_bytes / constants.store
    # Threads store staged rows in pieces of 16 bytes, and the ends element by element; unstaged ones all that way.
    ends = np.where(t.staged_columns > 0, fixed.row_ends / np.maximum(t.staged_columns, 1.0), fixed.register_stores)
    pieces = np.where(
        t.persistent > 0, stored * ends + fixed.last_piece, stored * np.where(t.swap, 0.0, fixed.row_stores)
    )
    # TMA takes as long for a row of a narrow box as for one of 64 columns. A consumer makes its stores one by one.
    is_16_bit = np.asarray(shapes.out_bytes) == 2
    stores = np.where(is_16_bit, t.stores, t.stores_32)
    staged = outputs / t.consumers * constants.output + stores * constants.tma_store
    boxes = stored * np.where(is_16_bit, BOX / t.box_columns, 1.0) + np.where(t.persistent > 0, staged, 0.0)
    direct = outputs / t.cluster_k * shapes.out_bytes / constants.direct
    # 32-bit outputs without SWAP leave by TMA, but cost about as much as if stored from registers: with the price of
    # TMA such tiles are chosen where they are 3 % slower than others in the mean (2026-11-17).
    from_registers = (t.staged_columns == 0) | (~is_16_bit & (t.swap == 0))
    boxes = np.where((t.persistent > 0) & from_registers & (t.slices == 1), direct, boxes)
    result: Column = np.where(is_16_bit & (np.asarray(shapes.unaligned_c) > 0), stored + pieces, boxes)
    return result


def _dram_reads(shapes: Shapes, tiles: Tiles, grid: TileGrid, slots: Column, chip: Chip) -> Column:
    """Bytes of inputs that DRAM must send where they do not all fit the L2.

    Blocks of one wave share the rows and columns of their tiles; the next wave no longer finds those in the L2.
    """
    rows, cols, down, across = grid.rows, grid.cols, grid.down, grid.across
    at_once = np.maximum(1, np.minimum(slots / tiles.split, down * across))
    group = np.minimum(tiles.group, down)
    columns = np.minimum(ceil(at_once / group), across)
    wave = (np.minimum(group * tiles.bm, rows) + np.minimum(columns * tiles.bn, cols)) * shapes.k * 2.0
    inputs = (rows + cols) * shapes.k * 2.0
    once = np.where(inputs <= chip.l2_bytes / 2, inputs, wave * (down * across / at_once))
    result: Column = once * shapes.batch
    return result


def _soft_maximum(*columns: Any) -> Column:
    """Slightly above the largest where others are near it."""
    sharpness = wgmma_costs().overlap_sharpness
    largest = columns[0]
    for column in columns[1:]:
        largest = np.maximum(largest, column)
    ratios = [column / largest for column in columns]
    if sharpness == 4.0:  # squares are ten times as fast as powers
        result: Column = largest * np.sqrt(np.sqrt(sum(np.square(np.square(ratio)) for ratio in ratios)))
    else:
        result = largest * sum(ratio**sharpness for ratio in ratios) ** (1 / sharpness)
    return result


def _wgmma() -> Wgmma:
    found = architecture(90).wgmma
    assert found is not None
    return found
