"""The cost models' constants as frozen structs, loaded from tables/h200.toml, where each has its source.

They were measured on an H200. Other Hopper GPUs use them with their own SMs, tensor-core rate and DRAM bandwidth.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from gemmsmith.gpus import GPU, gpu_named

MOST_WORKSPACE = 20 * 2**30  # bytes that a choice may use for copies of operands: a quarter of an H100's memory


@dataclass(frozen=True)
class WgmmaCosts:
    """Constants of the wgmma kernels that are set by hand: seconds, bytes per second, and ratios."""

    tile_ends: int
    sms_in_large_clusters: int
    sms_in_largest_clusters: int
    reduced_accumulators: int
    cluster_reduction: float
    cluster_launch: float
    cluster_sums: float
    cluster_sums_sent: float
    cluster_sums_bandwidth: float
    unaligned_bandwidth: float
    unaligned_wait: float
    sector_overhead: float
    align_copy: float
    row_ends: float
    last_piece: float
    register_stores: float
    row_stores: float
    half_aligned_row: float
    overlap_sharpness: float
    other_registers: int
    most_resident: int


@dataclass(frozen=True)
class SplitCosts:
    """Constants of fp32 products by 16-bit ones; ``widths`` are tile widths with their stages, by arithmetic."""

    launches: float
    step: float
    step_of_fp16x3: float
    tile_end: float
    unaligned_tile_end: float
    split_bytes: int
    stored_bytes: int
    bandwidth: float
    tile: int
    tile_overhead: int
    widths: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class RegisterCosts:
    """Constants of fp32 products whose tall operand is split in registers: seconds, clocks, bytes per second."""

    launches: float
    cluster: float
    tile: float
    output: float
    clock: float
    products: int
    least_clocks: float
    split_clocks: float
    add_clocks: float
    add_shared: float
    three_consumers: float
    split_bytes: int
    ingress: float
    unaligned_ingress: float
    latency: float
    l2: float
    dram: float


@dataclass(frozen=True)
class NarrowCosts:
    """Constants of 16-bit products with few rows or columns: seconds, bytes, bytes per second."""

    launch: float
    wave: float
    cluster: float
    ingress: float
    ingress_across: float
    latency: float
    dram: float
    short_row: float
    k_tile: float
    short_row_across: float
    least_bytes: float
    more_rows: float
    low_tile: float


@dataclass(frozen=True)
class VectorCosts:
    """Constants of fp32 products with up to eight rows or columns: seconds, bytes per second. ``chosen``: 0 leaves such
    products to the other kernels. ``simt_less`` and ``registers_more`` are of those kernels."""

    chosen: int
    fixed: float
    cluster: float
    block: float
    round: float
    along: float
    across: float
    shared: float
    products: float
    copy: float
    last: float
    sum_along: float
    sum_across: float
    dram: float
    simt_less: float
    registers_more: float


@dataclass(frozen=True)
class SimtTile:
    """A tile of simt_best: blocks per SM, measured share of the SM's peak, the parameters that differ, and sizes of
    clusters to try."""

    resident: int
    efficiency: float
    config: tuple[tuple[str, int], ...]
    clusters: tuple[int, ...] = ()


@dataclass(frozen=True)
class SimtCosts:
    """Constants of simt_best, and the tiles that are chosen among."""

    bandwidth: float
    fixed: float
    tile: float
    store: float
    unaligned_store: float
    team: float
    sharing: float
    reading: float
    shared_rate: float
    unaligned_rate: float
    transpose: float
    transpose_bandwidth: float
    registers_rate: float
    half_warps_rate: float
    cluster: float
    ingress: float
    latency: float
    layout_rate: Mapping[str, float]
    candidates: tuple[SimtTile, ...]


@cache
def cost_table() -> Mapping[str, Any]:
    """The file as it is, with units, meanings and sources."""
    return tomllib.loads(files("gemmsmith.choose").joinpath("tables", "h200.toml").read_text(encoding="utf-8"))


@cache
def measured_gpu() -> GPU:
    """The GPU that the constants were measured on."""
    return gpu_named(cost_table()["gpu"])


@cache
def estimates() -> Mapping[str, float]:
    """Start values of the fitted constants, by name."""
    return _values(cost_table()["estimates"])


@cache
def wgmma_costs() -> WgmmaCosts:
    return WgmmaCosts(**_values(cost_table()["wgmma"]))


@cache
def split_costs() -> SplitCosts:
    table = cost_table()["split"]
    widths = {kind: {int(width): stages for width, stages in rows.items()} for kind, rows in table["widths"].items()}
    return SplitCosts(**_values(table), widths=widths)


@cache
def register_costs() -> RegisterCosts:
    return RegisterCosts(**_values(cost_table()["registers"]))


@cache
def narrow_costs() -> NarrowCosts:
    return NarrowCosts(**_values(cost_table()["narrow"]))


@cache
def vector_costs() -> VectorCosts:
    return VectorCosts(**_values(cost_table()["vectors"]))


@cache
def simt_costs() -> SimtCosts:
    table = cost_table()["simt"]
    tiles = tuple(
        SimtTile(row["resident"], row["efficiency"], tuple(row["config"].items()), tuple(row.get("clusters", ())))
        for row in table["candidates"]
    )
    return SimtCosts(**_values(table), layout_rate=table["layout_rate"], candidates=tiles)


def _values(table: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each constant; tables of another form are left out."""
    return {name: row["value"] for name, row in table.items() if isinstance(row, dict) and "value" in row}
