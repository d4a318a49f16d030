"""Verify what was timed: one float64 reference per shape, shared by all contenders, with each arithmetic's bound.

The bounds are those of verification (verify/oracles/bounds.py).
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.fills import Operands
from gemmsmith.problem import FP32, Problem
from gemmsmith.verify.harness import affordable_mode
from gemmsmith.verify.oracles.bounds import absolute_floor, accuracy, error_ratios
from gemmsmith.verify.oracles.epilogue import projected_rounding
from gemmsmith.verify.oracles.projection import Projection, project, projection_gate, projection_reference
from gemmsmith.verify.oracles.reference import Reference, float64_reference

# Rows judged at a time, and blocks judged in parallel.
_BLOCK, _THREADS = 64, min(8, os.cpu_count() or 1)


@dataclass(frozen=True)
class Finding:
    """A result's worst error, and why it is wrong; empty if it is right."""

    rho: float
    why: str


UNJUDGED = Finding(math.nan, "")


class Oracle:
    """The expected product of normal random data: in float64, or as a projection for large sizes."""

    def __init__(self, problem: Problem, data: Operands, seed: int = 0) -> None:
        self._problem = problem
        self._reference: Reference | None = None
        self._projection: Projection | None = None
        if affordable_mode(problem) == "float":
            self._reference = float64_reference(problem, data.a, data.b, data.c)
        else:
            self._projection = projection_reference(problem, data.a, data.b, data.c, seed)

    def judge(self, got: NDArray[Any], precision: str) -> Finding:
        """Judge ``got`` within the bound of that arithmetic."""
        if not got.size:
            return Finding(0.0, "")
        allowed = accuracy(precision, self._problem.k)
        limit = allowed.gate if self._projection is None else projection_gate(allowed.gate, self._problem.n)
        scale = FP32.unit_roundoff / allowed.unit

        def worst_and_wrong(rows: slice) -> tuple[float, int]:
            units = self._ratios(got[rows], rows) * scale
            # Test what is right and negate, so that NaN fails.
            return float(np.max(units)), int(np.count_nonzero(~(units <= limit)))

        blocks = [slice(start, start + _BLOCK) for start in range(0, got.shape[0], _BLOCK)]
        with ThreadPoolExecutor(_THREADS) as pool:  # NumPy releases the GIL
            found = list(pool.map(worst_and_wrong, blocks))
        worst, wrong = float(np.max([rho for rho, _ in found])), sum(count for _, count in found)
        if not wrong:
            return Finding(worst, "")
        what = f"{got.size} outputs" if self._projection is None else f"{got.shape[0]} rows"
        return Finding(worst, f"{wrong} of {what} wrong: error {worst:.3g} units, {limit:.3g} allowed")

    def _ratios(self, got: NDArray[Any], rows: slice) -> NDArray[np.float64]:
        """Errors of some rows, in units of fp32's roundoff: per element, or per row."""
        if self._reference is not None:
            return error_ratios(self._problem, got, _part(self._reference, rows))
        expected = self._projection
        assert expected is not None, "either reference or projection is set"
        value, magnitude = expected.value[rows], expected.magnitude[rows]
        with np.errstate(all="ignore"):
            underflow = absolute_floor(self._problem) * float(np.abs(expected.direction).sum())
            floor = underflow + projected_rounding(self._problem.out_dtype, got.astype(np.float64), expected.direction)
            error = np.maximum(np.abs(project(got, expected.direction) - value) - floor, 0.0)
            ratios: NDArray[np.float64] = error / (FP32.unit_roundoff * magnitude)
            return np.where((magnitude == 0) & (error == 0), 0.0, ratios)


def _part(whole: Reference, rows: slice) -> Reference:
    """Some rows of a reference, to keep temporaries small."""
    return Reference(whole.value[rows], whole.exact[rows], whole.magnitude[rows], whole.may_overflow[rows],
                     whole.undecided[rows])  # fmt: skip
