"""What a measurement yields: frozen records that say what ran, where, how, how fast, and how well that is known.

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
    """Where a run took place. ``packages`` are (name, version) of what takes part: numpy, torch, cuBLAS, triton…"""

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
    """Seconds of one launch.

    mode      'graph': replayed from a CUDA graph; 'stream': launched one by one
    cache     'cold': operands rotate over at least twice the L2; 'hot': one set again and again
    low/high  95 % confidence interval of the median, from order statistics
    spread    interquartile range over the median
    samples   how many samples the median is of; a sample is the mean of ``launches`` launches
    converged whether the interval reached the precision that was asked for before the budget ended
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
    """What the GPU did meanwhile, sampled through NVML; NaN where it could not be read."""

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
    """This contender's speed over a baseline's, from interleaved rounds: 1.05 is five per cent faster."""

    baseline: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Measurement:
    """One contender on one problem.

    origin         'measured' on a GPU, or 'simulated'
    rejected       why the result must not be believed; empty where it may
    rho            the component-wise error over its unit roundoff, before timing and after it
    limit_tflops   what the GPU could do at most, by its roofline, in this arithmetic
    overhead       host seconds of one launch, on its own
    counters       the profiler's names, and resources: 'registers', 'smem_bytes', 'spill_bytes', 'occupancy'
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
        """The timing a table shows: cold, from a graph where there is one."""
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
