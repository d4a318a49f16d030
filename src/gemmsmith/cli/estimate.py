"""What a launch will cost: seconds on the simulator, and bytes of this machine's memory."""

from __future__ import annotations

import os
from dataclasses import dataclass

from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem

# Multiply-adds that one core simulates in a second, measured at 512³ on a shared machine (2026-11): naive 32 million,
# warp_tile 78 million, mma_pipelined 86 million. Each output costs less in a thread that has many.
_RATE, _TILED_RATE = 3e7, 8e7
_TILED = 4  # outputs per thread
MOST_SECONDS = 3600.0  # what takes longer needs --yes


@dataclass(frozen=True)
class Estimate:
    """Multiply-adds, and seconds at the rate of a kernel of this kind."""

    multiply_adds: int
    rate: float

    @property
    def seconds(self) -> float:
        return self.multiply_adds / self.rate

    def __str__(self) -> str:
        return (
            f"about {duration(self.seconds)}: {self.multiply_adds / 1e9:,.3g} billion multiply-adds at "
            f"{self.rate / 1e6:.0f} million a second"
        )


def estimate(spec: KernelSpec, config: Config, problem: Problem) -> Estimate:
    """The time that simulating a launch takes on one core."""
    outputs = problem.m * problem.n * problem.batch
    geometry = spec.geometry(problem, config)
    tiled = outputs >= _TILED * geometry.threads * max(1, geometry.blocks)
    return Estimate(outputs * problem.k, _TILED_RATE if tiled else _RATE)


def check_affordable(spec: KernelSpec, config: Config, problem: Problem, yes: bool) -> Estimate:
    """Refuse a simulation of hours, unless the user said ``--yes``."""
    expected = estimate(spec, config, problem)
    if expected.seconds > MOST_SECONDS and not yes:
        raise UsageError(
            f"simulating {problem} would take {expected}",
            "choose a smaller shape, or allow it with --yes; gemmsmith profile and explain simulate a sample instead",
        )
    return expected


def check_memory(problem: Problem) -> None:
    """Refuse operands that this machine cannot hold: the host's copy, and the one that the kernel gets."""
    a, b, c = (rows * columns for rows, columns in (problem.a_shape, problem.b_shape, problem.c_shape))
    stored = problem.dtype.itemsize * (a + b) + problem.out_dtype.itemsize * c
    needed, has = 2 * stored * max(1, problem.batch), memory_bytes()
    if needed > has:
        raise UsageError(
            f"{problem} needs {size(needed)} for two copies of A, B and C; this machine has {size(has)} of memory",
            "choose a smaller shape",
        )


def memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def size(count: float) -> str:
    """12.3 GB."""
    for unit in ("B", "KB", "MB", "GB", "TB", "PB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} EB"


def duration(seconds: float) -> str:
    """40 s, 12 min, 3.5 h, 2 days."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    return f"{days:,.0f} days" if days < 1000 else f"{days / 365:,.0f} years"
