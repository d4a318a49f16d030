"""Computed against expected, by each of the four oracles: which elements are wrong, and the worst of them.

Every comparison asks whether an element is *right* and negates that, so that NaN can only fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import UsageError
from gemmsmith.fills import Operands, fill_named
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import FP32, Problem, arithmetic_of
from gemmsmith.verify.bounds import Accuracy, absolute_floor, accuracy, error_ratios
from gemmsmith.verify.epilogue import finished, projected_rounding, stored
from gemmsmith.verify.fma import ordered_fma_reference
from gemmsmith.verify.projection import project, projection_gate, projection_reference
from gemmsmith.verify.reference import exact_reference, float64_reference, ring_reference

Array = NDArray[Any]

# What each mode compares with, and the fill it takes when none is named.
MODES = {"float": "normal", "exact": "integers", "bits": "normal", "ring": "bits", "projection": "normal"}


@dataclass(frozen=True)
class Worst:
    """One element: its place, its error ratio, what is there and what should be."""

    row: int
    column: int
    rho: float
    got: float
    expected: float


@dataclass(frozen=True)
class Comparison:
    """What an oracle says of one result, element by element.

    All four arrays have C's shape; for a projection, which knows rows only, they have one column.
    """

    ratios: NDArray[np.float64]
    wrong: NDArray[np.bool_]
    got: Array
    expected: Array
    gate: float

    def worst(self, among: NDArray[np.bool_] | None = None) -> Worst | None:
        """The element with the largest ratio, of those in ``among``; None where there is none."""
        ratios = self.ratios if among is None else np.where(among, self.ratios, -1.0)
        if not ratios.size:
            return None
        # argmax takes the first NaN for the largest, and so must it be.
        row, column = divmod(int(np.argmax(ratios)), ratios.shape[1])
        return Worst(
            row, column, float(ratios[row, column]), float(self.got[row, column]), float(self.expected[row, column])
        )


def check_mode(mode: str, fill: str, problem: Problem) -> None:
    """Raise unless ``mode`` exists and can judge data of that fill."""
    if mode not in MODES:
        raise UsageError(f"unknown mode {mode!r}", f"use one of {', '.join(MODES)}")
    fill_named(fill)
    if (mode == "ring") != (fill == "bits"):
        raise UsageError(f"mode {mode!r} and fill {fill!r} do not go together", "mode 'ring' is for fill 'bits'")
    if mode == "ring" and problem.dtype != FP32:
        raise UsageError(f"mode 'ring' is for fp32, not {problem.dtype}", "use mode 'exact'")
    if mode == "exact" and fill != "integers":
        raise UsageError(f"mode 'exact' needs the fill 'integers', not {fill!r}")
    if mode == "exact" and problem.activation not in ("", "relu"):
        raise UsageError(f"{problem.activation} is never exact", "use mode 'float'")
    if mode in ("bits", "ring") and (problem.has_epilogue or problem.out_dtype != FP32):
        raise UsageError(f"mode {mode!r} is for sums that are stored as they are", "use mode 'float'")
    if mode == "projection" and (problem.activation or problem.bias):
        raise UsageError("mode 'projection' is for sums without bias and activation", "use mode 'float'")
    if mode == "projection" and fill not in ("normal", "uniform", "integers"):
        raise UsageError(f"mode 'projection' needs the fill 'normal', 'uniform' or 'integers', not {fill!r}")


def compare(
    mode: str,
    problem: Problem,
    signature: Signature,
    data: Operands,
    got: Array,
    fill: str,
    seed: int,
    tensor_cores: bool = False,
) -> Comparison:
    """Judge ``got`` by the oracle called ``mode``; the reference is computed here, once.

    The matrices of a batch lie one below the other, in ``got`` as well, and so do those of the comparison.
    """
    found = [_compare(mode, problem.single, signature, part, mine, fill, seed, tensor_cores)
             for part, mine in _products(problem, data, got)]  # fmt: skip
    if not found:  # a batch of none
        none = np.zeros(got.shape)
        return Comparison(none, none > 0, got, got, 0.0)
    if len(found) == 1:
        return found[0]
    ratios, wrong, computed, expected = (
        np.concatenate([getattr(c, name) for c in found]) for name in ("ratios", "wrong", "got", "expected")
    )
    return Comparison(ratios, wrong, computed, expected, found[0].gate)


def _products(problem: Problem, data: Operands, got: Array) -> Iterator[tuple[Operands, Array]]:
    """The operands and result of each product of a batch; a matrix that serves all of it is given to each."""
    (rows_a, _), (rows_b, _) = problem.a_shape, problem.b_shape
    a, b, _ = problem.copies
    for i in range(problem.batch):
        at_a, at_b, at_c = (i if a > 1 else 0) * rows_a, (i if b > 1 else 0) * rows_b, i * problem.m
        mine = slice(at_c, at_c + problem.m)
        yield Operands(data.a[at_a : at_a + rows_a], data.b[at_b : at_b + rows_b], data.c[mine], data.bias), got[mine]


def _compare(
    mode: str, problem: Problem, signature: Signature, data: Operands, got: Array, fill: str, seed: int, tensor: bool
) -> Comparison:
    allowed = accuracy(arithmetic_of(problem.dtype, tensor), problem.k, fill_named(fill).errors_grow)
    if mode == "float":
        return _float(problem, data, got, allowed)
    if mode == "projection":
        return _projection(problem, data, got, allowed, seed)
    if mode == "exact":
        sums = exact_reference(problem, data.a, data.b, data.c)
        expected: Array = stored(problem, sums, data.bias).astype(np.float64)
        # As numbers: +0 and −0 are one integer.
        with np.errstate(invalid="ignore"):
            return _equality(expected, got, got.astype(np.float64) == expected)
    if mode == "bits":
        expected = ordered_fma_reference(problem, data.a, data.b, data.c)
    else:
        alpha_bits = None if signature.has("alpha") else 1
        expected = ring_reference(problem, data.a, data.b, data.c, alpha_bits).view(np.float32)
    return _equality(expected, got, _bits(got) == _bits(expected))


def _float(problem: Problem, data: Operands, got: Array, allowed: Accuracy) -> Comparison:
    reference = finished(problem, float64_reference(problem, data.a, data.b, data.c), data.bias)
    ratios = error_ratios(problem, got, reference, allowed.unit)
    return Comparison(ratios, ~(ratios <= allowed.gate), got, reference.value, allowed.gate)


def _projection(problem: Problem, data: Operands, got: Array, allowed: Accuracy, seed: int) -> Comparison:
    expected = projection_reference(problem, data.a, data.b, data.c, seed)
    limit = projection_gate(allowed.gate, problem.n)
    rows = project(got, expected.direction)
    with np.errstate(all="ignore"):
        underflow = absolute_floor(problem) * float(np.abs(expected.direction).sum())
        # Each output is rounded once more where its type is narrower than the sum's.
        floor = underflow + projected_rounding(problem.out_dtype, got.astype(np.float64), expected.direction)
        error = np.maximum(np.abs(rows - expected.value) - floor, 0.0)
        ratios = np.where(
            expected.magnitude == 0,
            np.where(rows == expected.value, 0.0, np.inf),
            error / (allowed.unit * expected.magnitude),
        )[:, None]
    return Comparison(ratios, ~(ratios <= limit), rows[:, None], expected.value[:, None], limit)


def _equality(expected: Array, got: Array, right: NDArray[np.bool_]) -> Comparison:
    """Any difference at all is wrong: the ratio is 0 or infinite, and the gate 0."""
    return Comparison(np.where(right, 0.0, np.inf), ~right, got, expected, 0.0)


def _bits(values: Array) -> NDArray[np.uint32]:
    return np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
