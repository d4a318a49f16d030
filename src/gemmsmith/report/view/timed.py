"""The time model for a view: when the block in full does what, where the model has a time."""

from __future__ import annotations

from gemmsmith.errors import SimulationError, UnknownInstructionError, UnsupportedError, UsageError
from gemmsmith.explain.timing.cycles import BlockCycles, block_cycles
from gemmsmith.gpus import GPU
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.wave import linear
from gemmsmith.trace.launch_trace import LaunchTrace

_DEEPEST = 1024  # a longer K takes the model too long for a page that is waited for
_MOST_SPANS = 80_000


def cycles_of(spec: KernelSpec, config: Config, problem: Problem, gpu: GPU | None, trace: LaunchTrace) -> (
        BlockCycles | None):  # fmt: skip
    """Cycles of the traced block; None where the model has none, and the page keeps to issue slots."""
    if gpu is None or not 0 < problem.k <= _DEEPEST:
        return None
    try:
        number = int(linear(trace.traced, trace.grid))
        found = block_cycles(spec, config, problem, gpu, number, problem.k)
    except (UnsupportedError, UnknownInstructionError, SimulationError, UsageError):
        return None
    return found if 0 < sum(len(warp.spans) for warp in found.warps) <= _MOST_SPANS else None
