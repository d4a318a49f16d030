"""The launch of a product with scales whose file does not show it, found by running single blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.any_kernel.arguments import match_arguments
from gemmsmith.call.launch import open_device, run_kernel
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.verify.meaning.launch_search import DEPTH, SIDE, launches_by_writes
from gemmsmith.verify.meaning.scaled_meanings import Meaning
from gemmsmith.verify.meaning.scaled_runner import Runner

_SHAPE = (SIDE, SIDE, DEPTH)
_MOST = 4  # launches that are tried


def is_guessed(spec: KernelSpec) -> bool:
    """Whether neither the user nor host code says how the kernel is launched."""
    sources = getattr(spec.geometry, "sources", None)
    return sources is not None and sources(Problem(*_SHAPE)) == ("guessed", "guessed")


def searched(runner: Runner, like: Meaning) -> Iterator[KernelSpec]:
    """The kernel under launches that write whole tiles of C, the likeliest first; ``like``: what its arrays hold."""
    spec = runner.spec
    scales = [each.name for each in runner.parameters if each.role in ("scale", "zero")]
    data = runner.data(_SHAPE, like, dict.fromkeys(scales, SIDE * DEPTH))
    compiled = runner.launch(_SHAPE, data).compile(cache=runner.cache)

    def written(geometry: Geometry, block: int) -> NDArray[np.bool_] | None:
        device = open_device("sim", "", "lockstep", False, False, runner.timeout)
        try:
            ran = run_kernel(compiled, geometry, match_arguments(compiled, runner.arguments(data)), device,
                             blocks=[block])  # fmt: skip
        except GemmsmithError:
            return None
        before, after = (np.ascontiguousarray(c).view(np.uint8)
                         for c in (data[runner.named("C")], np.asarray(ran[runner.output])))  # fmt: skip
        changed: NDArray[np.bool_] = (before != after).reshape(SIDE * SIDE, -1).any(axis=1)
        return changed

    found = launches_by_writes(spec, spec.config(), runner.ptx, written)
    yield from (replace(spec, geometry=launch) for launch in islice(found, _MOST))
