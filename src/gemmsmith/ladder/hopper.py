"""The rungs that use what only Hopper has (sm_90a): the copy engine (TMA), warp-group products (wgmma) and clusters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.constraints import divides
from gemmsmith.kernel.spec import KernelSpec, Scratch
from gemmsmith.ladder.hopper_config import (
    EACH_64_ROWS,
    GROUP,
    KEPT,
    SPECIALIZED,
    TAIL_BN,
    TMA_STORE,
    boxes_divide,
    brought_fit,
    cluster_fits,
    consumers,
    fit_store,
    fragments_fit,
    loose_operands,
    maps_with_c,
    narrow_fits,
    operand_maps,
    preset,
    rows_are_shared_out,
    slices_in_turn,
    smem_fits,
    stages,
    tile,
    tile_a_block,
    tile_a_cluster,
    tiles_in_turn,
)
from gemmsmith.problem import BF16, FP16, FP32, Problem, ceil_div
from gemmsmith.prologue.zero_workspace import FLAG_BYTES

# --- the rungs


def _rung(number: int, name: str, **described: Any) -> KernelSpec:
    """What all of them have in common, and what one has besides."""
    return KernelSpec(
        name=name,
        rung=number,
        source=Path(__file__).with_name(f"{number}_{name}.cu"),
        dtypes=(FP16, BF16),
        out_dtypes=(FP32, FP16, BF16),
        layouts=("NN", "NT", "TN", "TT"),
        epilogue=True,
        batched=True,
        tensor_cores=True,
        min_arch=90,
        arch_specific=90,
        simulated=False,
        repacks=True,
        **described,
    )


_TMA = (*tile(128, 256), stages(4))

WGMMA_TMA = _rung(
    16,
    "wgmma_tma",
    summary="slices by the copy engine, products by wgmma straight from shared memory",
    teaches="Hopper: one thread asks for a slice, 128 multiply it, and nobody computes addresses",
    parameters=_TMA,
    presets=(preset("128x256", _TMA),),
    constraints=(EACH_64_ROWS, smem_fits),
    geometry=tile_a_block,
    tensor_maps=operand_maps,
)

_SPECIAL = (*tile(128, 256), stages(4), consumers(2))

WGMMA_SPECIALIZED = _rung(
    17,
    "wgmma_specialized",
    summary="one group of threads asks for slices, the others multiply",
    teaches="producer and consumers that meet at barriers only; registers go where they are needed",
    parameters=_SPECIAL,
    presets=(preset("128x256", _SPECIAL),),
    constraints=(rows_are_shared_out, SPECIALIZED, smem_fits),
    geometry=tile_a_block,
    tensor_maps=operand_maps,
)

_PERSISTENT = (*_SPECIAL, GROUP, TMA_STORE)

WGMMA_PERSISTENT = _rung(
    18,
    "wgmma_persistent",
    summary="a block for every SM goes from tile to tile, and the copy engine takes the outputs away",
    teaches="the next tile's slices arrive, and the last one's outputs leave, while tensor cores multiply",
    parameters=_PERSISTENT,
    presets=(preset("128x256", _PERSISTENT),),
    constraints=(rows_are_shared_out, SPECIALIZED, boxes_divide, smem_fits),
    geometry=tiles_in_turn,
    tensor_maps=maps_with_c,
    fit=fit_store,
    persistent=True,
)

_CLUSTERED = (
    *_SPECIAL,
    Parameter("CLUSTER_M", 2, (1, 2, 4), "blocks of a cluster above each other, which share columns of B"),
    Parameter("CLUSTER_N", 1, (1, 2, 4), "blocks of a cluster beside each other, which share rows of A"),
    GROUP,
    TMA_STORE,
    TAIL_BN,
)

WGMMA_CLUSTER = _rung(
    19,
    "wgmma_cluster",
    summary="blocks on neighbouring SMs load each slice once, for all of them",
    teaches="clusters and multicast: what is not moved costs no energy, and energy sets the clock",
    parameters=_CLUSTERED,
    presets=(
        preset("128x256-2x1", _CLUSTERED),
        preset("256x192-1x2", _CLUSTERED, BM=256, BN=192, STAGES=3, CLUSTER_M=1, CLUSTER_N=2),
    ),
    constraints=(rows_are_shared_out, SPECIALIZED, cluster_fits, boxes_divide, narrow_fits, smem_fits),
    geometry=tiles_in_turn,
    tensor_maps=maps_with_c,
    fit=fit_store,
    persistent=True,
)

_SPLIT_K = (
    *tile(64, 32),
    stages(8, (2, 3, 4, 5, 6, 7, 8, 10, 12)),
    consumers(1),
    Parameter("SPLIT", 4, (1, 2, 4, 8), "blocks that share K, in a cluster"),
    Parameter("SWAP", 0, (0, 1), "computes the transpose of C: for a C of few rows"),
    Parameter("DEPTH", 1, (1, 2, 4), "slices of a stage, which are asked for together"),
    Parameter("CLUSTERS", 1, (1, 2, 4, 8, 16), "clusters that share K, and add up through memory"),
    Parameter(
        "DETERMINISTIC", 1, (0, 1), "their sums are added in the order of k; 0: as they come, in other bits each time"
    ),
    Parameter(
        "UNALIGNED_OPERANDS",
        0,
        (0, 1, 2),
        "A (SWAP: B) is taken as it is, though its rows may start anywhere: it is not copied. 2: and so is the other",
    ),
)


def _order_is_of_clusters(c: Config) -> str | None:
    if c["DETERMINISTIC"] or c["CLUSTERS"] > 1:
        return None
    return "DETERMINISTIC = 0 is for sums of several clusters, but CLUSTERS = 1"


def _meeting_place(problem: Problem, c: Config) -> Scratch:
    """Counters, in whole kilobytes, then sums of every cluster or, added as they come, of every tile."""
    if c["CLUSTERS"] == 1:
        return Scratch()
    tiles = tile_a_cluster(problem, c).grid[0] // (c["SPLIT"] * c["CLUSTERS"]) * problem.batch
    counters = ceil_div(4 * tiles * c["SPLIT"], 1024) * 1024
    sums = 4 * tiles * c["BM"] * c["BN"]
    if c["DETERMINISTIC"]:
        cleared = ceil_div(counters, FLAG_BYTES) * FLAG_BYTES
        return Scratch(max(cleared, counters + sums * c["CLUSTERS"]), cleared)
    cleared = ceil_div(counters + sums, FLAG_BYTES) * FLAG_BYTES
    return Scratch(cleared, cleared)


WGMMA_SPLIT_K = _rung(
    20,
    "wgmma_split_k",
    summary="blocks of a cluster share K and add up through each other's shared memory",
    teaches="small and deep products: enough blocks for all SMs, in an order of sums that never changes",
    parameters=_SPLIT_K,
    presets=(
        preset("64x32-8", _SPLIT_K, SPLIT=8),
        preset("skinny", _SPLIT_K, BN=16, SPLIT=2, SWAP=1),
        preset("deep", _SPLIT_K, BN=64, STAGES=6, SPLIT=8, DEPTH=2, CLUSTERS=8),
        preset("loose", _SPLIT_K, BN=16, STAGES=5, SPLIT=2, SWAP=1, DEPTH=2, UNALIGNED_OPERANDS=1),
        preset("small", _SPLIT_K, BN=64, STAGES=2, SPLIT=1, UNALIGNED_OPERANDS=2),
    ),
    constraints=(
        rows_are_shared_out,
        divides("SPLIT", "BM"),
        KEPT,
        fragments_fit,
        brought_fit,
        smem_fits,
        _order_is_of_clusters,
    ),
    geometry=tile_a_cluster,
    tensor_maps=operand_maps,
    loose=loose_operands,
    scratch=_meeting_place,
)

_STREAM_K = tuple(replace(p, default={"BM": 256, "BN": 192, "STAGES": 3, "CLUSTER_M": 1, "CLUSTER_N": 2}.get(
    p.name, p.default)) for p in _CLUSTERED if p is not TAIL_BN)  # fmt: skip
_MOST_BLOCKS = 144  # SMs of the largest chip with sm_90

WGMMA_STREAM_K = _rung(
    21,
    "wgmma_stream_k",
    summary="what would be a last wave of tiles is shared out by the slice",
    teaches="equal work for all SMs, for sums that take a way through memory",
    parameters=_STREAM_K,
    presets=(preset("256x192-1x2", _STREAM_K),),
    constraints=(rows_are_shared_out, SPECIALIZED, cluster_fits, boxes_divide, smem_fits),
    geometry=slices_in_turn,
    tensor_maps=maps_with_c,
    fit=fit_store,
    persistent=True,
    scratch=lambda _problem, _config: Scratch(FLAG_BYTES + _MOST_BLOCKS * 4 * 256 * 208, FLAG_BYTES),
)

LADDER = (WGMMA_TMA, WGMMA_SPECIALIZED, WGMMA_PERSISTENT, WGMMA_CLUSTER, WGMMA_SPLIT_K, WGMMA_STREAM_K)
