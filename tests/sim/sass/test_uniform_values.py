"""R2UR: a value of one lane for its warp, and which lanes have another, as loops over different values ask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gemmsmith.sim.sass.instructions.once import _broadcast


class Wave:
    """Two warps of four lanes; sources and targets are arrays."""

    warp = np.repeat([0, 1], 4)

    def indices(self, lanes: Any) -> Any:
        return lanes

    def fetch(self, source: Any, lanes: Any) -> Any:
        return source[lanes]

    def spread(self, values: Any, lanes: Any) -> Any:
        del lanes
        return values

    def put(self, target: Any, lanes: Any, values: Any) -> None:
        target[lanes] = values


@pytest.mark.parametrize("before", [False, True])
def test_lanes_that_have_another_value(before: bool) -> None:
    values, guards = np.array([9, 5, 7, 5, 1, 1, 1, 2], np.uint32), np.array([0, 1, 1, 1, 1, 1, 1, 1], bool)
    uniform, differs = np.zeros(8, np.uint32), np.array([1, 0, 0, 1, 0, 0, 0, 0], bool)
    sources = (values, guards, differs.copy()) if before else (values, guards)
    _broadcast(Wave(), SimpleNamespace(detail=False, sources=sources, targets=(uniform, differs)), np.arange(8))  # type: ignore[arg-type]
    assert uniform.tolist() == [5] * 4 + [1] * 4
    # Lane 0 is not asked; lane 3 has the value, and with .OR keeps what it had.
    assert differs.tolist() == [True, False, True, before, False, False, False, True]
