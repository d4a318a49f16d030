"""How accurate a product is: four measures of its error, over kinds of data and depths K, for several who multiply.

    operands by distribution, K, seed ─► everybody's product ─► four measures ─► one point a subject

Everybody is given the same operands as they are stored, and is compared with their product in float64. float64 itself
errs by up to K·2**−53 of |A||B|; where what was found is not far above that, the comparison is made again with a
compensated sum (``sharper_product``). No gate decides what is printed; whether one was exceeded is said besides.
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
from gemmsmith.verify.bounds import Accuracy, accuracy, error_ratios
from gemmsmith.verify.reference import Reference, float64_reference

Array = NDArray[Any]
F64 = NDArray[np.float64]

DISTRIBUTIONS = ("normal", "uniform", "wide", "ill-conditioned", "graded", "skewed", "cancelling")
MEASURES: Mapping[str, str] = MappingProxyType(
    {
        "frobenius": "‖Ĉ − C‖ / ‖C‖ in the Frobenius norm, the mean over seeds",
        "largest": "the largest component of |Ĉ − C| / (|A||B|), in units u of the arithmetic's roundoff",
        "mean": "the mean component of |Ĉ − C| / (|A||B|), in the same units",
        "relative": "the largest |Ĉ − C| / |C| of components that are not tiny: a tenth or more of rms(row)·rms(column)"
        "/rms(C)",
    }
)
# A component below this part of what its row and column suggest is there by chance: its relative error says little.
_TINY = 0.1
# float64 is good enough where what was found is so many times its own worst error.
_FAR_ABOVE = 100.0
_DOUBLE_ROUNDOFF = 2.0**-53
_NO_OPERAND = ("specials", "bits")


@dataclass(frozen=True)
class Subject:
    """Somebody who multiplies: the stored M×K by the stored K×N, in ``arithmetic`` ('fp32', 'tf32', 'fp16', …)."""

    name: str
    arithmetic: str
    product: Callable[[Array, Array], Array]
    is_baseline: bool = False


@dataclass(frozen=True)
class Errors:
    """The four measures (MEASURES). All are infinite where a component is not finite; ``relative`` is NaN where all
    components are tiny."""

    frobenius: float
    largest: float
    mean: float
    relative: float


@dataclass(frozen=True)
class Point:
    """The errors of one subject on one kind of data at one K, over all seeds.

    unit   u, the roundoff that component-wise errors are multiples of: 2**−24, or 2**−11 for TF32
    gate   the largest component-wise error that verification accepts, in the same units
    wrong  whether it was exceeded
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
    """What to measure: M×N outputs of every distribution and K, from so many seeds, in ``seconds`` at most.

    Time is looked at between products; a point that is not complete then is left out.
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
            raise UsageError(f"a time limit of {self.seconds:g} seconds is not positive")
        for name in self.distributions:
            fill_named(name)
            if name in _NO_OPERAND:
                raise UsageError(f"errors cannot be measured on the fill {name!r}", f"use {', '.join(DISTRIBUTIONS)}")
        if not self.distributions:
            raise UsageError("no distribution was named", f"use {', '.join(DISTRIBUTIONS)}")

    def problem(self, k: int) -> Problem:
        """As operands are made and judged; TF32's are fp32 numbers, with bits to lose."""
        return Problem(self.m, self.n, k, self.dtype)


def distributions_for(dtype: DType) -> tuple[str, ...]:
    """Those that the type can hold."""
    return tuple(name for name in DISTRIBUTIONS if dtype != INT8 or name in FOR_INTEGERS)


def study(
    subjects: Sequence[Subject],
    plan: Plan,
    step: Callable[[str], None] = lambda _text: None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Point]:
    """Every point, by distribution, K and subject; ``step`` is told before each product. Ends early at the limit."""
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
                yield _together(points)


class _Case:
    """One pair of operands with what their product should be."""

    def __init__(self, problem: Problem, distribution: str, seed: int) -> None:
        self._problem, self._distribution = problem, distribution
        self._data = operands(problem, distribution, seed)
        self._reference = float64_reference(problem, self._data.a, self._data.b, self._data.c)
        self._sharper: Reference | None = None

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
        reference = self._sharper or self._reference
        errors = measured(got, reference.value, reference.magnitude, allowed.unit)
        doubt = _FAR_ABOVE * self._problem.k * _DOUBLE_ROUNDOFF / allowed.unit
        if self._sharper is None and 0 < errors.largest < doubt:
            value = sharper_product(self._data.a, self._data.b)
            reference = self._sharper = replace(self._reference, value=value, exact=value)
            errors = measured(got, value, reference.magnitude, allowed.unit)
        ratios = error_ratios(self._problem, got, reference, allowed.unit)
        return errors, not bool((ratios <= allowed.gate).all())


def measured(got: Array, exact: F64, magnitude: F64, unit: float) -> Errors:
    """The four measures of one result; ``magnitude`` is |A||B|, and ``unit`` what component-wise errors are counted in.

    Where the magnitude is 0 every term is an exact zero, and so must the result be.
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
    """error / scale, and for a scale of 0: 0 where there is no error, else infinity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(scale == 0, np.where(np.asarray(error) == 0, 0.0, np.inf), error / scale)


def sharper_product(a: Array, b: Array) -> F64:
    """A·B as if summed in twice float64's precision and rounded once (Ogita, Rump and Oishi's Dot2).

    Products of fp32 and narrower types are exact in float64; the error of each addition (Knuth's TwoSum) is summed
    beside the sum.
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


def _together(points: Sequence[Point]) -> Point:
    """One point of those of all seeds: the largest of what is largest, the mean of what is a mean or a norm."""
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
    """By how much a subject's error exceeds a baseline's, at the worst of all points: above 1 it is less accurate."""

    subject: str
    baseline: str
    measure: str
    value: float
    distribution: str
    k: int


def ratios(points: Sequence[Point], subject: str, baseline: str) -> tuple[Ratio, ...]:
    """The worst point of a subject beside a baseline, by each of two measures; component-wise errors in one unit.

    Points where neither errs say nothing and are left out.
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
