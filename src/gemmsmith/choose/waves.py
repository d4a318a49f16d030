"""How tiles fill the SMs: usable SMs, resident blocks, and waves of wide and of tail tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.choose.columns import Column, Shapes, Tiles, ceil
from gemmsmith.choose.cost_data import measured_gpu, wgmma_costs
from gemmsmith.gpus import GPU, architecture
from gemmsmith.ladder.families.hopper import BOX, BOX_ROW, WARPGROUP


@dataclass(frozen=True)
class Chip:
    """What the cost model takes from the table of GPUs. ``flops_per_clock``: of one SM, 16-bit and dense."""

    sms: int
    smem_per_sm: int
    registers_per_sm: int
    l2_bytes: int
    flops_per_clock: int


def chip_of(gpu: GPU, sms: int = 0) -> Chip:
    """The chip of a GPU in the table; ``sms`` where the driver reports another number."""
    return Chip(sms or gpu.sms, gpu.smem_per_sm, gpu.registers_per_sm, gpu.l2_bytes, gpu.operations_per_clock("bf16"))


@dataclass(frozen=True)
class TileGrid:
    """The tiles of each configuration on its problem.

    rows, cols    of the result as the tiles see it: exchanged where the transposed product is computed
    down, across  tiles along them, in whole clusters
    work          blocks in all, with the parts of K and the batch
    steps         k-tiles of a block
    """

    rows: Column
    cols: Column
    down: Column
    across: Column
    work: Column
    steps: Column


def tile_grid(shapes: Shapes, tiles: Tiles) -> TileGrid:
    t = tiles
    rows, cols = np.where(t.swap > 0, shapes.n, shapes.m), np.where(t.swap > 0, shapes.m, shapes.n)
    down = ceil(ceil(rows / t.bm) / t.cluster_m) * t.cluster_m
    across = ceil(ceil(cols / t.bn) / t.cluster_n) * t.cluster_n
    parts = t.split * t.clusters * t.slices * t.cluster_k
    steps = np.maximum(1, ceil(ceil(shapes.k / (BOX * t.depth)) / parts)) * t.depth
    return TileGrid(rows, cols, down, across, down * across * shapes.batch * parts, steps)


def used_sms(tiles: Tiles, chip: Chip) -> Column:
    """SMs that whole clusters fill. Blocks that split K are a cluster as well."""
    cluster = tiles.cluster_m * tiles.cluster_n * tiles.split * tiles.cluster_k
    costs, sms = wgmma_costs(), measured_gpu().sms
    usable = np.where(cluster > 2, chip.sms * costs.sms_in_large_clusters / sms, chip.sms)
    usable = np.where((cluster > 4) & (tiles.cluster_k > 1), chip.sms * costs.sms_in_largest_clusters / sms, usable)
    result: Column = np.floor(usable / cluster) * cluster
    return result


def resident_blocks(tiles: Tiles, chip: Chip) -> Column:
    """Blocks that an SM holds at once, by shared memory and registers."""
    costs, reserved = wgmma_costs(), architecture(90).reserved_smem_per_block
    smem = tiles.stages * tiles.depth * (tiles.bm + tiles.bn) * BOX_ROW + 4 * tiles.bm * tiles.bn + reserved
    registers = tiles.bm * tiles.bn + (tiles.consumers + 1) * WARPGROUP * costs.other_registers
    fits = np.minimum(chip.smem_per_sm // smem, chip.registers_per_sm // registers)
    result: Column = np.clip(fits, 1, costs.most_resident)
    return result


def has_tail_tiles(shapes: Shapes, tiles: Tiles, chip: Chip) -> NDArray[np.bool_]:
    """Whether a configuration computes part of its problem in tail tiles."""
    result: NDArray[np.bool_] = (tiles.tail_bn > 0) & (waves_by_width(shapes, tiles, chip)[1] > 0)
    return result


def waves_by_width(shapes: Shapes, tiles: Tiles, chip: Chip) -> tuple[Column, Column]:
    """Waves of wide tiles, and of tail tiles after them."""
    height = ceil(ceil(shapes.m / tiles.bm) / tiles.cluster_m) * shapes.batch
    return divide_columns(tiles, shapes.n, height, used_sms(tiles, chip) / (tiles.cluster_m * tiles.cluster_n))


def divide_columns(tiles: Tiles, cols: Any, height: Column, clusters: Column) -> tuple[Column, Column]:
    """Waves of wide and of tail tiles, as tail_tiles.cuh divides ``cols`` columns of C among them: the least time of
    ``clusters`` persistent clusters, where a column of cluster tiles has ``height`` of them."""
    ends = wgmma_costs().tile_ends
    span, tail = tiles.bn * tiles.cluster_n, np.where(tiles.tail_bn > 0, tiles.tail_bn, tiles.bn)
    workers = np.minimum(np.floor(clusters), height * ceil(cols / (tail * tiles.cluster_n)))
    waves = ceil(ceil(cols / span) * height / workers)
    best, after, least = waves, np.zeros_like(waves), waves * (tiles.bn + ends)
    for fewer in (1, 2, 3):
        wide = np.floor(np.maximum(0, waves - fewer) * workers / height)
        rest = ceil(np.maximum(0, cols - wide * span) / (tail * tiles.cluster_n))
        first = ceil(wide * height / workers)
        then = ceil((wide + rest) * height / workers) - first
        time = first * (tiles.bn + ends) + then * (tail + ends)
        better = (time < least) & (fewer <= waves)
        best, after = np.where(better, first, best), np.where(better, then, after)
        least = np.where(better, time, least)
    return best, after
