"""Accuracy study: four error measures of several kernels and libraries, over data distributions and depths K.

    operands by distribution, K, seed ─► each subject's product ─► four measures ─► one point per subject

All subjects get the same stored operands and are compared with the float64 product. float64 itself has an error of up
to K·2**−53 of |A||B|; if a measured error is not far above that, the comparison is repeated with a compensated sum
(``compensated_product``). Every point is reported, whether or not it exceeds the verification gate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import UsageError
from gemmsmith.fills import FOR_INTEGERS, fill_named, operands
from gemmsmith.problem import FP32, INT8, DType, Problem
from gemmsmith.verify.oracles.bounds import Accuracy, accuracy, error_ratios
from gemmsmith.verify.oracles.reference import Reference, float64_reference

Array = NDArray[Any]
F64 = NDArray[np.float64]

DISTRIBUTIONS = ("normal", "uniform", "wide", "ill-conditioned", "graded", "skewed", "cancelling")
MEASURES: Mapping[str, str] = MappingProxyType(
    {
        "frobenius": "‖Ĉ − C‖ / ‖C‖ in the Frobenius norm, the mean over seeds",
        "largest": "the largest component of |Ĉ − C| / (|A||B|), in units u of the arithmetic's roundoff",
        "mean": "the mean component of |Ĉ − C| / (|A||B|), in the same units",
        "relative": "the largest |Ĉ − C| / |C| among components of at least a tenth of rms(row)·rms(column)/rms(C)",
    }
)
# A component below this fraction of its expected size is small by cancellation; its relative error means little.
_TINY = 0.1
# float64 is accurate enough if the measured error is at least this many times its own worst error.
_FAR_ABOVE = 100.0
_DOUBLE_ROUNDOFF = 2.0**-53
_NO_OPERAND = ("specials", "bits")


@dataclass(frozen=True)
class Subject:
    """A kernel or library that multiplies a stored M×K by a stored K×N in ``arithmetic`` ('fp32', 'tf32', …)."""

    name: str
    arithmetic: str
    product: Callable[[Array, Array], Array]
    is_baseline: bool = False


@dataclass(frozen=True)
class Errors:
    """The four measures (MEASURES). All are infinite if a component is not finite.

    ``relative`` is NaN if every component is too small to count.
    """

    frobenius: float
    largest: float
    mean: float
    relative: float


@dataclass(frozen=True)
class Point:
    """The errors of one subject on one distribution at one K, over all seeds.

    unit   the unit roundoff u of component-wise errors: 2**−24, or 2**−11 for TF32
    gate   the largest component-wise error that verification accepts, in units of u
    wrong  whether the gate was exceeded
    """

    distribution: str
    k: int
    subject: str
    arithmetic: str
    unit: float
    errors: Errors
    gate: float
    wrong: bool
    seeds: int


@dataclass(frozen=True)
class Plan:
    """What to measure: M×N outputs for every distribution, K and seed, within ``seconds``.

    The time limit is checked between products; an incomplete point is dropped.
    """

    m: int
    n: int
    depths: tuple[int, ...]
    distributions: tuple[str, ...]
    dtype: DType = FP32
    seeds: int = 1
    seconds: float = math.inf

    def __post_init__(self) -> None:
        for name, values in (("M", (self.m,)), ("N", (self.n,)), ("K", self.depths), ("--seeds", (self.seeds,))):
            if not values or min(values) < 1:
                raise UsageError(f"{name} must be 1 or more, not {min(values, default=0)}")
        if not self.seconds > 0:
            raise UsageError(f"the time limit must be positive, not {self.seconds:g} seconds")
        for name in self.distributions:
            fill_named(name)
            if name in _NO_OPERAND:
                raise UsageError(f"errors cannot be measured on the fill {name!r}", f"use {', '.join(DISTRIBUTIONS)}")
        if not self.distributions:
            raise UsageError("no distribution given", f"use {', '.join(DISTRIBUTIONS)}")

    def problem(self, k: int) -> Problem:
        """The problem at depth ``k``; TF32 operands are fp32 numbers that the product truncates."""
        return Problem(self.m, self.n, k, self.dtype)


def distributions_for(dtype: DType) -> tuple[str, ...]:
    """The distributions that the type can represent."""
    return tuple(name for name in DISTRIBUTIONS if dtype != INT8 or name in FOR_INTEGERS)


def study(
    subjects: Sequence[Subject],
    plan: Plan,
    step: Callable[[str], None] = lambda _text: None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Point]:
    """Every point, by distribution, K and subject, until the time limit; ``step`` is called before each product."""
    deadline = clock() + plan.seconds
    for distribution in plan.distributions:
        for k in plan.depths:
            found: dict[str, list[Point]] = {subject.name: [] for subject in subjects}
            for seed in range(plan.seeds):
                case = _Case(plan.problem(k), distribution, seed)
                for subject in subjects:
                    if clock() >= deadline:
                        return
                    step(f"{subject.name}, {distribution}, K = {k}")
                    found[subject.name].append(case.point(subject))
            for points in found.values():
                yield _merged(points)


class _Case:
    """One pair of operands and its reference product."""

    def __init__(self, problem: Problem, distribution: str, seed: int) -> None:
        self._problem, self._distribution = problem, distribution
        self._data = operands(problem, distribution, seed)
        self._reference = float64_reference(problem, self._data.a, self._data.b, self._data.c)
        self._compensated: Reference | None = None

    def point(self, subject: Subject) -> Point:
        problem = self._problem
        allowed = accuracy(subject.arithmetic, problem.k, fill_named(self._distribution).errors_grow)
        got = subject.product(self._data.a.copy(), self._data.b.copy())
        errors, wrong = self._judged(got, allowed)
        return Point(
            self._distribution, problem.k, subject.name, subject.arithmetic, allowed.unit, errors, allowed.gate,
            wrong, 1,
        )  # fmt: skip

    def _judged(self, got: Array, allowed: Accuracy) -> tuple[Errors, bool]:
        reference = self._compensated or self._reference
        errors = measured(got, reference.value, reference.magnitude, allowed.unit)
        doubt = _FAR_ABOVE * self._problem.k * _DOUBLE_ROUNDOFF / allowed.unit
        if self._compensated is None and 0 < errors.largest < doubt:
            value = compensated_product(self._data.a, self._data.b)
            reference = self._compensated = replace(self._reference, value=value, exact=value)
            errors = measured(got, value, reference.magnitude, allowed.unit)
        ratios = error_ratios(self._problem, got, reference, allowed.unit)
        return errors, not bool((ratios <= allowed.gate).all())


def measured(got: Array, exact: F64, magnitude: F64, unit: float) -> Errors:
    """The four measures of one result; ``magnitude`` is |A||B|, ``unit`` the unit of component-wise errors.

    Where the magnitude is 0 every term is exactly zero, and the result must be zero.
    """
    wide = got.astype(np.float64)
    if wide.shape != exact.shape:
        raise UsageError(f"the product is {wide.shape}, not {exact.shape}")
    if not np.isfinite(wide).all():
        return Errors(math.inf, math.inf, math.inf, math.inf)
    error = np.abs(wide - exact)
    components = _over(error, unit * magnitude)
    rows, columns = (np.sqrt(np.mean(np.square(exact), axis=axis, keepdims=True)) for axis in (1, 0))
    whole = float(np.sqrt(np.mean(np.square(exact))))
    expected = rows * columns / whole if whole > 0 else np.zeros_like(exact)
    counted = (np.abs(exact) >= _TINY * expected) & (exact != 0)
    return Errors(
        frobenius=float(_over(np.linalg.norm(error), np.asarray(np.linalg.norm(exact)))),
        largest=float(components.max()),
        mean=float(components.mean()),
        relative=float((error[counted] / np.abs(exact[counted])).max()) if counted.any() else math.nan,
    )


def _over(error: Any, scale: F64) -> F64:
    """error / scale; for a scale of 0: 0 without error, else infinity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(scale == 0, np.where(np.asarray(error) == 0, 0.0, np.inf), error / scale)


def compensated_product(a: Array, b: Array) -> F64:
    """A·B as if accumulated in twice float64's precision and rounded once (Ogita, Rump and Oishi's Dot2).

    Products of fp32 and narrower types are exact in float64. The error of each addition (Knuth's TwoSum) is
    accumulated separately and added at the end.
    """
    left, right = a.astype(np.float64), b.astype(np.float64)
    total, lost = np.zeros((2, left.shape[0], right.shape[1]))
    for k in range(left.shape[1]):
        term = left[:, k, None] * right[None, k, :]
        new = total + term
        of_term = new - total
        lost += (total - (new - of_term)) + (term - of_term)
        total = new
    summed: F64 = total + lost
    return summed


def _merged(points: Sequence[Point]) -> Point:
    """Merge the points of all seeds: the maximum of maxima, the mean of means and norms."""
    each = [point.errors for point in points]
    known = [errors.relative for errors in each if not math.isnan(errors.relative)]
    errors = Errors(
        frobenius=sum(e.frobenius for e in each) / len(each),
        largest=max(e.largest for e in each),
        mean=sum(e.mean for e in each) / len(each),
        relative=max(known, default=math.nan),
    )
    return replace(points[0], errors=errors, wrong=any(point.wrong for point in points), seeds=len(points))


@dataclass(frozen=True)
class Ratio:
    """A subject's error over a baseline's at the worst point; above 1 the subject is less accurate."""

    subject: str
    baseline: str
    measure: str
    value: float
    distribution: str
    k: int


def ratios(points: Sequence[Point], subject: str, baseline: str) -> tuple[Ratio, ...]:
    """The worst point of a subject relative to a baseline, for two measures; component-wise errors in one unit.

    Points at which both errors are zero are skipped.
    """
    at = {(p.distribution, p.k): p for p in points if p.subject == baseline}
    found = []
    for measure in ("largest", "frobenius"):
        worst: Ratio | None = None
        for point in points:
            other = at.get((point.distribution, point.k))
            if point.subject != subject or other is None:
                continue
            mine, theirs = (getattr(p.errors, measure) * (p.unit if measure == "largest" else 1.0)
                            for p in (point, other))  # fmt: skip
            if mine == theirs == 0:
                continue
            value = mine / theirs if theirs > 0 and math.isfinite(theirs) else math.inf if mine > theirs else 1.0
            if worst is None or value > worst.value:
                worst = Ratio(subject, baseline, measure, value, point.distribution, point.k)
        found += [worst] if worst is not None else []
    return tuple(found)
