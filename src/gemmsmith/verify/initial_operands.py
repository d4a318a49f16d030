"""What the matrices hold before a launch: NaN where BLAS does not read them, or numbers that may be read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gemmsmith.fills import Array, Operands
from gemmsmith.problem import Problem


def initialized(problem: Problem, data: Operands, c: str, mode: str) -> Operands:
    """The operands before the launch: NaN, finite or zero where BLAS does not read them."""
    if c == "zero":
        data = replace(data, c=np.zeros_like(data.c))
    if c == "set" and mode != "mod32":
        if problem.beta == 0:
            data = replace(data, c=_finite(data.c))
        if problem.alpha == 0:
            data = replace(data, a=_finite(data.a), b=_finite(data.b))
    elif problem.alpha == 0:
        data = replace(data, a=_all_nan(data.a), b=_all_nan(data.b))
    return data


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, np.ones_like(values))


def _all_nan(values: Array) -> Array:
    """NaN, or the most negative integer for an integer type."""
    worst = np.iinfo(values.dtype).min if values.dtype.kind in "iu" else np.nan
    return np.full(values.shape, worst, dtype=values.dtype)
