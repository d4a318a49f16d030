"""Predicted time of one tile of a wgmma kernel: its k-steps, the reduction of partial sums, and storing it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.choose.columns import Column, Shapes, Tiles, ceil
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.cost_data import wgmma_costs
from gemmsmith.choose.half_aligned import half_aligned_seconds, starts_half_aligned
from gemmsmith.choose.waves import Chip, TileGrid
from gemmsmith.gpus import Wgmma, architecture, cuda_limits
from gemmsmith.ladder.families.hopper import BOX, BOX_ROW

_SECTOR_COLUMNS = 16  # 16-bit elements of the 32 bytes that memory sends at once


def tile_seconds(shapes: Shapes, tiles: Tiles, chip: Chip, constants: Constants, together: Column, busy: Column,
                  steps: Column) -> Column:  # fmt: skip
    """One tile: its k-steps, the reduction and the epilogue. ``together`` blocks share an SM, ``busy`` SMs the L2."""
    c, t = constants, tiles
    step = step_seconds(shapes, tiles, chip, constants, together, busy)
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
    result: Column = steps * step + c.tile + reduced + epilogue_seconds(shapes, tiles, constants, outputs)
    return result


def step_seconds(shapes: Shapes, tiles: Tiles, chip: Chip, constants: Constants, together: Column,
                  busy: Column) -> Column:  # fmt: skip
    """One k-tile: the slowest of tensor cores, L2, SM ingress and load latency."""
    c, t, fixed = constants, tiles, wgmma_costs()
    mma = product_seconds(tiles, chip, constants, together)
    from_l2 = BOX_ROW * rows_from_l2(shapes, tiles) * together * busy
    arriving = BOX_ROW * (t.bm + loaded_columns(shapes, tiles)) * together
    in_flight = np.maximum(1, t.stages - 1) * t.depth  # k-tiles that are loaded while one stage is multiplied
    step = soft_maximum(mma, from_l2 / c.l2, arriving / c.ingress, c.latency / in_flight)
    step = _with_slow_rows(shapes, tiles, step, together) + c.step / t.depth
    # Threads load an unaligned operand in whole sectors, through registers.
    loaded = BOX_ROW * t.bm * (1.0 + fixed.sector_overhead / t.depth) * together * np.minimum(1.0, shapes.k / BOX)
    result: Column = (
        step
        + np.where(t.unaligned > 0, loaded / fixed.unaligned_bandwidth, 0.0)
        + np.where(t.unaligned > 1, fixed.unaligned_wait / t.depth, 0.0)
    )
    return result


def _with_slow_rows(shapes: Shapes, tiles: Tiles, step: Column, together: Column) -> Column:
    """The step where rows are half aligned. Where every second tile starts so, the mean of both kinds."""
    even = np.maximum(step, half_aligned_seconds(shapes, tiles) * together)
    starts = starts_half_aligned(shapes, tiles)
    if not np.any(starts):
        return even
    odd = np.maximum(step, half_aligned_seconds(shapes, tiles, starts) * together)
    result: Column = (even + odd) / 2
    return result


def product_seconds(tiles: Tiles, chip: Chip, constants: Constants, together: Column) -> Column:
    """Tensor cores' time for one k-tile."""
    t, wgmma = tiles, _wgmma()
    k = wgmma.k_bytes // 2  # 16-bit elements
    # wgmma reads its operands from shared memory at 128 bytes a clock: 2 KB of A, and 32 bytes for each column of B.
    smem_clocks = wgmma.rows * wgmma.k_bytes / cuda_limits().wavefront_bytes
    smem_clocks_per_column = wgmma.k_bytes / cuda_limits().wavefront_bytes
    full_rate = 2 * wgmma.rows * k * t.bn / chip.flops_per_clock
    clocks = np.maximum(full_rate, smem_clocks + smem_clocks_per_column * t.bn)
    result: Column = t.bm / wgmma.rows * (BOX / k) * clocks / constants.clock * together
    return result


def loaded_columns(shapes: Shapes, tiles: Tiles) -> Column:
    """Columns of the second operand that are loaded for a tile. Where it is not K-major, boxes of 64 columns; in
    wgmma_cluster the last one is as wide as it must be, in whole sectors."""
    t = tiles
    mn_major = np.where(t.swap > 0, shapes.mn_major_a, shapes.mn_major_b)
    last = np.where(t.persistent > 0, _SECTOR_COLUMNS, BOX)
    result: Column = np.where(mn_major > 0, last * ceil(t.bn / last), t.bn)
    return result


def rows_from_l2(shapes: Shapes, tiles: Tiles) -> Column:
    """Rows of 64 of k, of both operands, that L2 sends to a block for each k-tile; others multicast the rest."""
    result: Column = tiles.bm / tiles.cluster_n + loaded_columns(shapes, tiles) / tiles.cluster_m
    return result


def epilogue_seconds(shapes: Shapes, tiles: Tiles, constants: Constants, outputs: Column) -> Column:
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


def dram_reads(shapes: Shapes, tiles: Tiles, grid: TileGrid, slots: Column, chip: Chip) -> Column:
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


def soft_maximum(*columns: Any) -> Column:
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
