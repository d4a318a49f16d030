"""The launch of a product with scales whose file does not show it, found by running single blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.any_kernel.arguments import match_arguments
from gemmsmith.call.launch import Launch, open_device, run_kernel
from gemmsmith.compile.cache import CompileCache
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.shapes import Shape
from gemmsmith.verify.meaning.launch_search import DEPTH, SIDE, launches_by_writes

_SHAPE = (SIDE, SIDE, DEPTH)
_MOST = 4  # launches that are tried


class Runner(Protocol):
    """Launches of the product."""

    @property
    def spec(self) -> KernelSpec: ...
    @property
    def timeout(self) -> float: ...
    @property
    def cache(self) -> CompileCache | None: ...
    @property
    def ptx(self) -> str: ...
    def named(self, role: str) -> str: ...
    def launch(self, shape: Shape, data: Mapping[str, Any]) -> Launch: ...
    def data(self, shape: Shape, wide: bool, counts: Mapping[str, int]) -> dict[str, Any]: ...


def is_guessed(spec: KernelSpec) -> bool:
    """Whether neither the user nor host code says how the kernel is launched."""
    sources = getattr(spec.geometry, "sources", None)
    return sources is not None and sources(Problem(*_SHAPE)) == ("guessed", "guessed")


def searched(runner: Runner, scales: tuple[str, ...]) -> Iterator[KernelSpec]:
    """The kernel under launches that write whole tiles of C, the likeliest first."""
    spec = runner.spec
    data = runner.data(_SHAPE, False, dict.fromkeys(scales, SIDE * DEPTH))
    compiled = runner.launch(_SHAPE, data).compile(cache=runner.cache)

    def written(geometry: Geometry, block: int) -> NDArray[np.bool_] | None:
        device = open_device("sim", "", "lockstep", False, False, runner.timeout)
        try:
            ran = run_kernel(compiled, geometry, match_arguments(compiled, data), device, blocks=[block])
        except GemmsmithError:
            return None
        before, after = (np.ascontiguousarray(c).view(np.uint8) for c in (data[output], np.asarray(ran[output])))
        changed: NDArray[np.bool_] = (before != after).reshape(SIDE * SIDE, -1).any(axis=1)
        return changed

    output = runner.named("C")
    found = launches_by_writes(spec, spec.config(), runner.ptx, written)
    yield from (replace(spec, geometry=launch) for launch in islice(found, _MOST))
