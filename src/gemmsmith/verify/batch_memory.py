"""Batches whose matrices do not follow one another at once: rows that belong to none lie between them."""

from __future__ import annotations

import numpy as np

from gemmsmith.errors import ProblemError
from gemmsmith.fills import Array
from gemmsmith.problem import Problem


def batch_gaps(problem: Problem) -> tuple[int, int, int]:
    """Rows between the matrices of a batch, of A, B and C; raises where the strides are not of whole rows."""
    if problem.batch <= 1:
        return 0, 0, 0
    found = []
    for stride, rows, ld in ((problem.stride_a, problem.a_shape[0], problem.lda),
                             (problem.stride_b, problem.b_shape[0], problem.ldb),
                             (problem.stride_c, problem.c_shape[0], problem.ldc)):  # fmt: skip
        gap, rest = divmod(stride - rows * ld, ld) if stride else (0, 0)
        if rest or gap < 0:
            raise ProblemError("verification supports only strides of whole rows",
                               "leave the strides at their defaults, or make them multiples of ld")  # fmt: skip
        found.append(gap)
    return found[0], found[1], found[2]


def gap_rows(values: Array, rows: int) -> Array:
    """Rows that must be neither used nor changed: NaN, or the most negative integer."""
    kind = values.dtype
    worst = np.iinfo(kind).min if kind.kind in "iu" else np.nan
    return np.full((rows, values.shape[1]), worst, kind)


def with_gaps(values: Array, rows: int, gap: int) -> Array:
    """The stacked matrices of a batch with ``gap`` rows after each but the last."""
    if not gap:
        return values
    parts: list[Array] = []
    for start in range(0, values.shape[0], rows):
        parts += [values[start : start + rows], gap_rows(values, gap)]
    return np.concatenate(parts[:-1])


def without_gaps(values: Array, rows: int, gap: int) -> tuple[Array, Array]:
    """The stacked matrices, and the rows between them."""
    if not gap:
        return values, values[:0]
    inside = np.arange(values.shape[0]) % (rows + gap) < rows
    return values[inside], values[~inside]
