"""The smallest sizes that a kernel's asserts allow, where its grid does not tell its tile.

A persistent kernel has one grid for every M, N and K, and often asserts multiples of several tiles. Its first cluster
alone shows whether an assert fails; from the sizes that pass, the smallest are found by halving.
"""

from __future__ import annotations

from collections.abc import Callable

from gemmsmith.call.binding import CompileFn
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.sim.access_faults import ASSERTION_FAILED
from gemmsmith.verify.harness import verify_launch

_TIMES = (2, 4, 8, 16, 32, 64)
_MOST_OUTPUTS = 1 << 24


def asserted_sizes(
    open_device: Callable[[], Device], spec: KernelSpec, config: Config, shape: Shape, compile_fn: CompileFn
) -> Shape | None:
    """Multiples of ``shape`` at which no assert of the first cluster fails; None if none fails there, or all do."""

    def fails(tried: Shape) -> bool:
        problem: Problem = spec.problem(*tried)
        verdict = verify_launch(open_device(), spec, config, problem, fill="integers", mode="exact", c="set",
                                compile_fn=compile_fn, blocks=(0,))  # fmt: skip
        return any(ASSERTION_FAILED in reason for reason in verdict.reasons)

    if not fails(shape):
        return None
    m, n, k = shape
    allowed = ((m * times, n * times, k) for times in _TIMES if m * n * times * times <= _MOST_OUTPUTS)
    found = next((tried for tried in allowed if not fails(tried)), None)
    if found is None:
        return None
    for axis in (0, 1):
        while found[axis] > shape[axis]:
            smaller = found[0] // (2 if axis == 0 else 1), found[1] // (2 if axis == 1 else 1), k
            if fails(smaller):
                break
            found = smaller
    return found
