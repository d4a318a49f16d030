"""What the correcting trees (trees.py) may ask about a configuration and its problem: the configuration, how its tiles
fill the GPU, and ratios of the times that the cost model adds up."""

from __future__ import annotations

import numpy as np

from gemmsmith.choose.columns import Column, Shapes, Tiles, ceil
from gemmsmith.choose.half_aligned import half_aligned_seconds, starts_half_aligned
from gemmsmith.choose.lines import lines_of_boxes
from gemmsmith.choose.order import stored_at_once
from gemmsmith.choose.waves import Chip, tile_grid, used_sms
from gemmsmith.ladder.families.hopper import BOX, BOX_ROW

_MOST_WAVES = 8.0  # more are alike
_MOST_TILES = 64.0  # along a side


def features(shapes: Shapes, tiles: Tiles, chip: Chip, seconds: Column) -> dict[str, Column]:
    """By name, one value for each configuration; ``seconds`` is the cost model's prediction."""
    t = tiles
    grid = tile_grid(shapes, tiles)
    rows, cols, work, steps = grid.rows, grid.cols, grid.work, grid.steps
    sms = used_sms(tiles, chip)
    waves = ceil(work / sms)
    mn_major_first = np.where(t.swap > 0, shapes.mn_major_b, shapes.mn_major_a)
    mn_major_second = np.where(t.swap > 0, shapes.mn_major_a, shapes.mn_major_b)
    clocks = t.bm / 64 * np.maximum(t.bn / 2, 16 + t.bn / 4)  # of the tensor cores for 16 of k
    loaded = t.bm / t.cluster_n + t.bn / t.cluster_m
    busy = np.minimum(work, sms)
    outputs = rows * cols * shapes.batch * shapes.out_bytes
    moved = (rows + cols) * shapes.k * 2.0 * shapes.batch + outputs
    half_first = np.where(t.swap > 0, shapes.half_aligned_b, shapes.half_aligned_a)
    half_second = np.where(t.swap > 0, shapes.half_aligned_a, shapes.half_aligned_b)
    sent_first, sent_second = t.bm / t.cluster_n / clocks, t.bn / t.cluster_m / clocks
    lines = lines_of_boxes(shapes, tiles)
    beside, below = stored_at_once(shapes, tiles, grid, sms)
    found = {
        "rows": t.bm, "columns": t.bn, "consumers": t.consumers, "cluster_m": t.cluster_m, "cluster_n": t.cluster_n,
        "cluster": t.cluster_m * t.cluster_n, "k_tiles_in_flight": t.stages * t.depth, "swap": t.swap,
        "slices": t.slices, "cluster_k": t.cluster_k, "split": t.split, "depth": t.depth, "persistent": t.persistent,
        "waves": np.minimum(waves, _MOST_WAVES), "fill": work / (sms * waves), "busy": busy / chip.sms,
        "log_steps": np.log(steps), "out_bytes": shapes.out_bytes, "mn_major_first": mn_major_first,
        "mn_major_second": mn_major_second, "half_aligned": shapes.half_aligned_a + 2 * shapes.half_aligned_b,
        "log_seconds": np.log(seconds),
        "l2_per_clock": loaded * busy / chip.sms / clocks, "arriving_per_clock": (t.bm + t.bn) / clocks,
        "clocks_in_flight": clocks * (t.stages - 1) * t.depth, "bytes_per_second": moved / seconds / 1e12,
        "waste": grid.down * t.bm * grid.across * t.bn / (rows * cols), "tail": t.tail_bn,
        "box": t.box_columns * t.persistent, "m_tiles": t.bm / 64 / t.consumers, "ragged": t.bn % BOX,
        "stores": np.where(np.asarray(shapes.out_bytes) == 4, t.stores_32, t.stores), "stages": t.stages,
        "tile_kilobytes": BOX_ROW * (t.bm + t.bn) / 1024, "half_first": half_first, "half_second": half_second,
        "half_share": half_aligned_seconds(shapes, tiles, starts_half_aligned(shapes, tiles)) * 1e9 / clocks,
        "lines_first": lines[0] / clocks, "lines_second": lines[1] / clocks, "sent_first": sent_first,
        "sent_second": sent_second, "exact_waves": np.minimum(work / sms, _MOST_WAVES),
        "clocks_per_second": steps * waves * clocks / seconds / 1e9, "down": np.minimum(rows / t.bm, _MOST_TILES),
        "across": np.minimum(cols / t.bn, _MOST_TILES), "beside": beside, "below": below, "group": t.group,
        "stored_per_second": outputs / seconds / 1e12, "stored_beside": outputs / seconds / 1e12 * np.log(beside),
    }  # fmt: skip
    return {name: np.broadcast_to(np.asarray(value, np.float64), t.bm.shape) for name, value in found.items()}
