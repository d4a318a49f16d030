"""What the correcting networks (networks.py) are asked about: what trees are asked about, how full tiles and waves are,
what share of the predicted time each of the cost model's limits has, and extents of K and of the sides of tiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmsmith.choose.columns import Column, Shapes, Tiles, ceil
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.tile_time import (
    dram_reads,
    epilogue_seconds,
    loaded_columns,
    product_seconds,
    rows_from_l2,
    step_seconds,
)
from gemmsmith.choose.waves import Chip, resident_blocks, tile_grid, used_sms
from gemmsmith.ladder.families.hopper import BOX_ROW

_SMALLEST = 1e-4  # shares and extents below are alike
# Features of which ratios count, not differences.
_RATIOS = frozenset((
    "k_tiles_in_flight", "clocks_in_flight", "l2_per_clock", "arriving_per_clock", "waste", "waves", "exact_waves",
    "tile_kilobytes", "stages", "rows", "columns", "slices", "cluster", "sent_first", "sent_second", "down", "across",
    "lines_first", "lines_second", "beside", "below", "group", "stored_per_second",
    "busy", "box", "bytes_per_second", "clocks_per_second",
))  # fmt: skip


def inputs(shapes: Shapes, tiles: Tiles, chip: Chip, constants: Constants, seconds: Column,
           features: Mapping[str, Column]) -> dict[str, Column]:  # fmt: skip
    """By name, one value for each configuration. ``seconds`` is the cost model's prediction, ``features`` are those of
    features.py."""
    found: dict[str, Any] = {name: _log(value) if name in _RATIOS else value for name, value in features.items()}
    waves, down, across = features["exact_waves"], features["down"], features["across"]
    found |= {"idle_in_waves": _beyond(waves), "filled": np.minimum(waves, 1.0), "padding_down": _beyond(down),
              "padding_across": _beyond(across)}  # fmt: skip
    found |= {f"{name}_is_{many}": features[name] == many for name in ("cluster_m", "cluster_n") for many in (2, 4)}
    shares = _shares(shapes, tiles, chip, constants, seconds)
    found |= {f"log_{name}": _log(value) for name, value in shares.items()}
    return {name: np.broadcast_to(np.asarray(value, np.float64), seconds.shape) for name, value in found.items()}


def _shares(shapes: Shapes, tiles: Tiles, chip: Chip, constants: Constants, seconds: Column) -> dict[str, Any]:
    """Of a k-step: products, L2, the way into the SM, waiting. Of the whole: steps, outputs, DRAM, what the cap asks
    for. And extents."""
    c, t, grid, sms = constants, tiles, tile_grid(shapes, tiles), used_sms(tiles, chip)
    resident = np.where(t.persistent > 0, 1, resident_blocks(tiles, chip))
    together = np.minimum(resident, ceil(grid.work / sms))
    waves, busy = ceil(grid.work / (sms * resident)), np.minimum(sms, grid.work)
    step = step_seconds(shapes, tiles, chip, constants, together, busy)
    from_l2, outputs = rows_from_l2(shapes, tiles), grid.rows * grid.cols * shapes.batch * shapes.out_bytes
    read = (grid.rows + grid.cols) * shapes.k * 2.0 * shapes.batch
    traffic = np.maximum(read, dram_reads(shapes, tiles, grid, sms * resident, chip)) + outputs
    flops = 2.0 * shapes.m * shapes.n * shapes.k * shapes.batch
    return {
        "products_of_step": product_seconds(tiles, chip, constants, together) / step,
        "l2_of_step": BOX_ROW * from_l2 * together * busy / c.l2 / step,
        "arriving_of_step": BOX_ROW * (t.bm + loaded_columns(shapes, tiles)) * together / c.ingress / step,
        "latency_of_step": c.latency / (np.maximum(1, t.stages - 1) * t.depth) / step,
        "steps": waves * grid.steps * step / seconds,
        "epilogue": waves * epilogue_seconds(shapes, tiles, constants, t.bm * t.bn * together) / seconds,
        "dram": traffic / c.dram / seconds, "drain": outputs / waves / c.drain / seconds,
        "capped_products": flops / c.capped_flops / seconds,
        "capped_l2": grid.work * grid.steps * BOX_ROW * from_l2 / c.capped_bytes / seconds,
        "capped_dram": traffic / c.capped_dram / seconds,
        "k": shapes.k, "tile_side_rows": grid.rows, "tile_side_columns": grid.cols,
        "work": grid.work, "together": together, "microseconds": seconds * 1e6, "batch": shapes.batch,
    }  # fmt: skip


def _log(values: Any) -> Any:
    return np.log(np.maximum(values, _SMALLEST))


def _beyond(count: Column) -> Column:
    """How much more than ``count`` the next whole number is."""
    result: Column = np.ceil(count) / np.maximum(count, _SMALLEST) - 1
    return result
