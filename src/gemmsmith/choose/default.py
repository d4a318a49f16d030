"""The preferred rung for a problem where nothing was tuned and nothing is predicted: on the simulator, on GPUs before
and after Hopper, and for types that have no Hopper kernel."""

from __future__ import annotations

from gemmsmith.errors import UnsupportedError
from gemmsmith.kernels.registry import rungs
from gemmsmith.kernels.spec import KernelSpec
from gemmsmith.problem import Problem

# Fastest first among the rungs that run everywhere; the plain ones come last because they take any layout.
_PREFERENCE = ("warp_tile", "mma_pipelined", "warp_tile_mixed", "vectorized", "coalesced")


def default_rung(problem: Problem) -> KernelSpec:
    """The preferred rung that computes ``problem``."""
    by_name = {spec.name: spec for spec in rungs()}
    for name in _PREFERENCE:
        spec = by_name.get(name)
        if spec is not None and spec.takes(problem):
            return spec
    raise UnsupportedError(
        f"no rung computes {problem}", "make the operands contiguous row-major, or convert them to fp16, bf16 or fp32"
    )
