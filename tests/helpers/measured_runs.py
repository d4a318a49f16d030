"""Invented runs for database tests; imports little, for processes that only write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gemmsmith.problem import Problem
from gemmsmith.run.contender import Identity
from gemmsmith.store.results import Conditions, Machine, Measurement, Ratio, Run, Timing

MACHINE = Machine(
    host="node7", system="Linux 6.8", cpu="a CPU", python="3.12.3", gpu="NVIDIA H200", arch="sm_90", driver="580.65",
    cuda="13.0", compiler="NVRTC 13.0", packages=(("numpy", "2.3"), ("torch", "2.11")),
)  # fmt: skip


def timing(micro: float, mode: str = "graph", cache: str = "cold", half: float = 0.002, **changes: Any) -> Timing:
    """A median of ``micro`` µs with an interval of ± ``half`` of it."""
    median = 1e-6 * micro
    made = Timing(mode, cache, median, median * (1 - half), median * (1 + half), 0.01, 100, 20, True)
    return replace(made, **changes)


def measurement(
    name: str = "warp_tile",
    micro: float = 100.0,
    size: int = 1024,
    kind: str = "rung",
    identity: dict[str, Any] | None = None,
    **changes: Any,
) -> Measurement:
    """A valid measurement."""
    made = Measurement(
        Identity(name, kind, "BM=64,BN=64", version="0.1.0", digest="d1"), Problem(size, size, size), "measured", True,
        rho=(1.5, 1.5), timings=(timing(micro),), ratios=(Ratio("cublas", 0.93, 0.92, 0.94),),
        conditions=Conditions(1755.0, 1700.0, 1980.0, 650.0, 700.0, 61.0, ("power",), 40), overhead=3e-6,
        limit_tflops=66.9, counters=(("registers", 128.0), ("smem_bytes", 16384.0)),
    )  # fmt: skip
    return replace(made, **({"identity": replace(made.identity, **identity)} if identity else {}), **changes)


def run(name: str = "r1", *measurements: Measurement, day: int = 15, **changes: Any) -> Run:
    """A run with that id, on a day in November."""
    made = Run(name, f"2026-11-{day:02}T08:30:00+00:00", "gemmsmith bench warp_tile", "0.1.0", MACHINE, measurements)
    return replace(made, **changes)
