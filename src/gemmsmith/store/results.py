"""Frozen records of measurements: what ran, where, how, how fast, and how precisely that is known.

Run ── Machine
  └── Measurement (one contender, one problem) ── Identity, Timing…, Conditions, Ratio…
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gemmsmith.problem import Problem
from gemmsmith.run.contender import Identity

Pairs = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Machine:
    """The machine of a run. ``packages`` are (name, version) of relevant packages: numpy, torch, cuBLAS, triton…"""

    host: str
    system: str
    cpu: str
    python: str
    gpu: str = ""
    arch: str = ""
    driver: str = ""
    cuda: str = ""
    compiler: str = ""
    packages: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Timing:
    """Seconds per launch.

    mode      'graph': replayed from a CUDA graph; 'stream': launched one by one
    cache     'cold': operands rotate over at least twice the L2; 'hot': always the same set
    low/high  95 % confidence interval of the median, from order statistics
    spread    interquartile range over the median
    samples   the number of samples; a sample is the mean of ``launches`` launches
    converged whether the interval reached the requested precision within the budget
    """

    mode: str
    cache: str
    median: float
    low: float
    high: float
    spread: float
    samples: int
    launches: int
    converged: bool


@dataclass(frozen=True)
class Conditions:
    """The GPU's conditions during timing, sampled through NVML; NaN if not readable."""

    sm_mhz: float = math.nan
    sm_mhz_min: float = math.nan
    sm_mhz_max: float = math.nan
    power_w: float = math.nan
    power_w_max: float = math.nan
    temperature_c: float = math.nan
    throttled: tuple[str, ...] = ()
    samples: int = 0


@dataclass(frozen=True)
class Ratio:
    """This contender's speed over a baseline's, from interleaved rounds: 1.05 is 5 % faster."""

    baseline: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Measurement:
    """One contender on one problem.

    origin         'measured' on a GPU, or 'simulated'
    rejected       why the result is invalid; empty if it is valid
    rho            the component-wise error in units of roundoff, before and after timing
    limit_tflops   the GPU's roofline limit in this arithmetic
    overhead       host seconds per launch
    counters       profiler metrics, and resources: 'registers', 'smem_bytes', 'spill_bytes', 'occupancy'
    """

    identity: Identity
    problem: Problem
    origin: str
    verified: bool
    rejected: str = ""
    rho: tuple[float, float] = (math.nan, math.nan)
    timings: tuple[Timing, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    conditions: Conditions = Conditions()
    overhead: float = math.nan
    limit_tflops: float = math.nan
    counters: Pairs = ()

    @property
    def best(self) -> Timing | None:
        """The timing that tables show: cold, from a graph if there is one."""
        order = {("graph", "cold"): 0, ("stream", "cold"): 1, ("graph", "hot"): 2, ("stream", "hot"): 3}
        return min(self.timings, key=lambda t: order[t.mode, t.cache], default=None)

    @property
    def seconds(self) -> float:
        return self.best.median if self.best is not None else math.nan

    @property
    def tflops(self) -> float:
        return self.problem.flops / self.seconds / 1e12 if self.seconds > 0 else math.nan

    @property
    def gbs(self) -> float:
        """GB/s of compulsory traffic."""
        return self.problem.compulsory_bytes / self.seconds / 1e9 if self.seconds > 0 else math.nan

    @property
    def of_limit(self) -> float:
        return self.tflops / self.limit_tflops

    def ratio(self, baseline: str) -> float:
        return next((r.value for r in self.ratios if r.baseline == baseline), math.nan)

    def counter(self, name: str) -> float:
        return dict(self.counters).get(name, math.nan)


@dataclass(frozen=True)
class Run:
    """Everything one command measured. ``id`` is unique across machines; ``started`` is UTC, ISO 8601."""

    id: str
    started: str
    command: str
    gemmsmith: str
    machine: Machine
    measurements: tuple[Measurement, ...] = ()
