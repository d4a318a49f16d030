"""The constants of the cost model of wgmma kernels (cost.py), and the corrections that go with them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from gemmsmith.choose.cost_data import estimates, measured_gpu
from gemmsmith.choose.networks import Networks
from gemmsmith.choose.trees import Trees
from gemmsmith.gpus import GPU


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
    trees: Trees | None = None  # corrections, not constants; None where none were fitted
    networks: Networks | None = None
    few_networks: Networks | None = None


_CORRECTIONS = ("trees", "networks", "few_networks")
CONSTANTS = tuple(each.name for each in fields(Constants) if each.name not in _CORRECTIONS)


def with_memory_of(constants: Constants, gpu: GPU) -> Constants:
    """The H200's constants for a GPU with another DRAM, which is taken to reach the same share of its peak."""
    return replace(constants, dram=constants.dram * gpu.dram_gbs / measured_gpu().dram_gbs)
