"""Compare a result with the expected one, by one of five oracles: which elements are wrong, and the worst of them.

Every comparison tests whether an element is *right* and negates the answer, so that NaN can only fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import UsageError
from gemmsmith.fills import Operands, fill_named, is_exact
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import FP16, FP32, INT32, DType, Problem, arithmetic_of
from gemmsmith.verify.oracles.bounds import Accuracy, absolute_floor, accuracy, error_ratios, rounded_terms
from gemmsmith.verify.oracles.epilogue import SMOOTH, evaluated, finished, projected_rounding, stored
from gemmsmith.verify.oracles.fma import ordered_fma_reference
from gemmsmith.verify.oracles.projection import project, projection_gate, projection_reference
from gemmsmith.verify.oracles.reference import exact_reference, float64_reference, mod32_reference

Array = NDArray[Any]

_FP16_SAFE = 2.0**15  # below this Σ|terms| no partial sum in fp16 overflows
# Each mode's default fill.
MODES = {"float": "normal", "exact": "integers", "bits": "normal", "mod32": "bits", "projection": "normal"}


@dataclass(frozen=True)
class Arithmetic:
    """How a kernel computes: on tensor cores, with which accumulators, factors rounded to which type ('': as given),
    whether alpha·A·B and beta·C are rounded to C's type before they are added, and whether an activation gives NaN for
    NaN."""

    tensor_cores: bool = False
    accumulator: DType | None = None
    factors: str = ""
    rounds_again: bool = False
    keeps_nan: bool = False


FP32_SUMS = Arithmetic()


@dataclass(frozen=True)
class Worst:
    """One element: its position, error ratio, computed and expected value."""

    row: int
    column: int
    rho: float
    got: float
    expected: float


@dataclass(frozen=True)
class Comparison:
    """An oracle's judgement of one result, element by element.

    All four arrays have C's shape; for a projection, which judges whole rows, they have one column.
    """

    ratios: NDArray[np.float64]
    wrong: NDArray[np.bool_]
    got: Array
    expected: Array
    gate: float

    def transposed(self) -> Comparison:
        """The same for Cᵀ."""
        return Comparison(self.ratios.T, self.wrong.T, self.got.T, self.expected.T, self.gate)

    def worst(self, among: NDArray[np.bool_] | None = None) -> Worst | None:
        """The element with the largest ratio among ``among``; None if C is empty."""
        ratios = self.ratios if among is None else np.where(among, self.ratios, -1.0)
        if not ratios.size:
            return None
        # argmax treats NaN as the largest, as it should.
        row, column = divmod(int(np.argmax(ratios)), ratios.shape[1])
        return Worst(
            row, column, float(ratios[row, column]), float(self.got[row, column]), float(self.expected[row, column])
        )


def check_mode(mode: str, fill: str, problem: Problem) -> None:
    """Raise unless ``mode`` exists and can judge this fill and problem."""
    if mode not in MODES:
        raise UsageError(f"unknown mode {mode!r}", f"use one of {', '.join(MODES)}")
    fill_named(fill)
    if (mode == "mod32") != (fill == "bits"):
        raise UsageError(f"mode {mode!r} and fill {fill!r} do not go together", "mode 'mod32' is for fill 'bits'")
    if mode == "mod32" and problem.dtype != FP32:
        raise UsageError(f"mode 'mod32' is for fp32, not {problem.dtype}", "use mode 'exact'")
    if mode == "exact" and not is_exact(fill):
        raise UsageError(f"mode 'exact' needs the fill 'integers', not {fill!r}")
    if mode == "exact" and problem.activation not in ("", "relu"):
        raise UsageError(f"mode 'exact' cannot judge {problem.activation}, which rounds", "use mode 'float'")
    if mode in ("bits", "mod32") and (problem.has_epilogue or problem.out_dtype != FP32):
        raise UsageError(f"mode {mode!r} requires fp32 outputs without an epilogue", "use mode 'float'")
    if mode == "projection" and (problem.activation or problem.bias):
        raise UsageError("mode 'projection' does not support bias and activation", "use mode 'float'")
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
    how: Arithmetic = FP32_SUMS,
) -> Comparison:
    """Judge ``got`` with the oracle ``mode``; the reference is computed here, once.

    The matrices of a batch are stacked by rows, in ``got`` and in the comparison.
    """
    found = [_compare(mode, problem.single, signature, part, mine, fill, seed, how)
             for part, mine in _products(problem, data, got)]  # fmt: skip
    if not found:  # an empty batch
        none = np.zeros(got.shape)
        return Comparison(none, none > 0, got, got, 0.0)
    if len(found) == 1:
        return found[0]
    ratios, wrong, computed, expected = (
        np.concatenate([getattr(c, name) for c in found]) for name in ("ratios", "wrong", "got", "expected")
    )
    return Comparison(ratios, wrong, computed, expected, found[0].gate)


def _products(problem: Problem, data: Operands, got: Array) -> Iterator[tuple[Operands, Array]]:
    """The operands and result of each product in a batch; a shared matrix is passed to each."""
    (rows_a, _), (rows_b, _) = problem.a_shape, problem.b_shape
    a, b, _ = problem.copies
    for i in range(problem.batch):
        at_a, at_b, at_c = (i if a > 1 else 0) * rows_a, (i if b > 1 else 0) * rows_b, i * problem.m
        mine = slice(at_c, at_c + problem.m)
        bias = data.bias
        if bias is not None and problem.own_bias:
            bias = bias[i * problem.bias_length : (i + 1) * problem.bias_length]
        yield Operands(data.a[at_a : at_a + rows_a], data.b[at_b : at_b + rows_b], data.c[mine], bias), got[mine]


def _compare(
    mode: str, problem: Problem, signature: Signature, data: Operands, got: Array, fill: str, seed: int,
    how: Arithmetic,
) -> Comparison:  # fmt: skip
    allowed = accuracy(arithmetic_of(problem.dtype, how.tensor_cores), problem.k, fill_named(fill).errors_grow,
                       how.accumulator, how.factors)  # fmt: skip
    if mode == "float" and problem.out_dtype == INT32 and not problem.activation:
        mode = "exact"  # sums of integers are exact modulo 2**32, whatever the data
    if mode == "float":
        terms = rounded_terms(problem, data.a, data.b, data.c) if how.rounds_again else 0.0
        return _float(problem, data, got, allowed, how, signature.activation, terms)
    if mode == "projection":
        return _projection(problem, data, got, allowed, seed)
    if mode == "exact":
        exact = exact_reference(problem, data.a, data.b, data.c)
        expected: Array = stored(problem, exact, data.bias).astype(np.float64)
        # Compared as numbers: +0 equals −0.
        with np.errstate(invalid="ignore"):
            return _equality(expected, got, got.astype(np.float64) == expected)
    if mode == "bits":
        expected = ordered_fma_reference(problem, data.a, data.b, data.c)
    else:
        alpha_bits = None if signature.has("alpha") else 1
        expected = mod32_reference(problem, data.a, data.b, data.c, alpha_bits).view(np.float32)
    return _equality(expected, got, _bits(got) == _bits(expected))


def _float(
    problem: Problem, data: Operands, got: Array, allowed: Accuracy, how: Arithmetic, own: str = "",
    terms: Array | float = 0.0,
) -> Comparison:  # fmt: skip
    accumulator = how.accumulator
    product = float64_reference(problem, data.a, data.b, data.c)
    reference = finished(problem, product, data.bias)
    if accumulator == FP16:  # a partial sum may leave its range, in some order of summation
        reference = replace(reference, may_overflow=reference.may_overflow | (reference.magnitude >= _FP16_SAFE))
    if own == "relu":  # a user's fmaxf(x, 0) and x > 0 ? x : 0 make NaN 0, as IEEE's maximum of numbers does
        argument = finished(replace(problem, activation=""), product, data.bias).value
        # x * (x > 0) and (x + |x|) / 2 are usual: NaN tells that the sum was infinite. A number would not.
        formula = np.isneginf(argument) & np.isnan(got)
        reference = replace(reference, value=np.where(formula, np.nan, reference.value))
        dropped = np.isnan(reference.value) & (got == 0) & (not how.keeps_nan)
        reference = replace(reference, value=np.where(dropped, 0.0, reference.value),
                            exact=np.where(dropped, 0.0, reference.exact))  # fmt: skip
    if own in SMOOTH:
        error, formula = evaluated(problem, finished(replace(problem, activation=""), product, data.bias), got)
        terms = terms + error
        reference = replace(reference, value=np.where(formula, np.nan, reference.value))
    ratios = error_ratios(problem, got, reference, allowed.unit, accumulator, terms)
    return Comparison(ratios, ~(ratios <= allowed.gate), got, reference.value, allowed.gate)


def _projection(problem: Problem, data: Operands, got: Array, allowed: Accuracy, seed: int) -> Comparison:
    expected = projection_reference(problem, data.a, data.b, data.c, seed)
    limit = projection_gate(allowed.gate, problem.n)
    rows = project(got, expected.direction)
    with np.errstate(all="ignore"):
        underflow = absolute_floor(problem) * float(np.abs(expected.direction).sum())
        # Each output is rounded once more if its type is narrower than the accumulator's.
        floor = underflow + projected_rounding(problem.out_dtype, got.astype(np.float64), expected.direction)
        error = np.maximum(np.abs(rows - expected.value) - floor, 0.0)
        ratios = np.where(
            expected.magnitude == 0,
            np.where(rows == expected.value, 0.0, np.inf),
            error / (allowed.unit * expected.magnitude),
        )[:, None]
    return Comparison(ratios, ~(ratios <= limit), rows[:, None], expected.value[:, None], limit)


def _equality(expected: Array, got: Array, right: NDArray[np.bool_]) -> Comparison:
    """Any difference is wrong: the ratio is 0 or infinite, and the gate is 0."""
    return Comparison(np.where(right, 0.0, np.inf), ~right, got, expected, 0.0)


def _bits(values: Array) -> NDArray[np.uint32]:
    return np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
