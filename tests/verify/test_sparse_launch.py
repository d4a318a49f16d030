"""How a few blocks of a large product are judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gemmsmith.problem import Problem
from gemmsmith.verify.trials.sparse_launch import _judged

A, B = np.arange(1.0, 9.0, dtype=np.float32).reshape(4, 2), np.ones((2, 4), np.float32)


@pytest.mark.parametrize(
    ("rows", "wrong", "said"),
    [(2, False, ""), (4, False, ""), (1, False, "wrote 4 outputs, and should have written 8"), (4, True, "are wrong")],
)
def test_tiles_may_overlap_but_every_output_must_be_right(rows: int, wrong: bool, said: str) -> None:
    row, column = (each.ravel() for each in np.mgrid[:rows, :4])
    values = (A @ B)[row, column]
    values[-1] += wrong
    matrices: tuple[Any, Any] = SimpleNamespace(view=A), SimpleNamespace(view=B)
    found = _judged(Problem(4, 4, 2), *matrices, None, (row, column, values), written=8)
    assert (said in found[0]) if said else found == ()
