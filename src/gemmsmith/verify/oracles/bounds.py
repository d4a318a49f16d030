"""Error bounds: how large the rounding error of a correct kernel may be, and where the thresholds come from.

The measure. With u = 2**−24 and magnitude = |alpha|·|A|·|B| + |beta|·|C|, element by element,

    ρ = |Ĉ − C| / (u · magnitude)

The textbook bound (Higham, *Accuracy and Stability*, §3.1) is ρ ≤ n/(1 − n·u) with n = K + 2: K roundings in the sum,
in any order, one for alpha, one for beta. It is reported as ``theory``, and is useless as a threshold: at K = 16,384 it
always accepts a dropped term, because one term of the sum is about 1/K of the magnitude.

The gate. On zero-mean data the errors are a random walk over partial sums that stay near √k, and ρ does not grow with
K: correct kernels stay below ρ = 5 up to K = 65,536. The gate is 16, three times that, and still catches one dropped
term at K = 16,384 in 96 % of cases. If partial sums are as large as the sum of magnitudes (positive data; or one term
far above the rest, as in the fill 'wide'), each of K additions has an error of up to u/2 of the whole sum. The random
walk then gives ρ ≈ 0.7·√K, and 1.4·√K for the largest of thousands of outputs (docs/verification.md has the
calibration). There the gate is 16·max(1, √K/8), which is 2·√K from K = 64 on.

fp16 and bf16 inputs: a product has at most 22 bits, so it is exact in fp32, and accumulators are fp32. Same u, same
gate. int8 inputs: accumulators are exact in int32, and the gate covers the roundings of alpha, beta and bias.

Tensor cores add 8 or 16 products to the accumulator at a time and truncate (docs/simulator.md). The errors have a sign
and grow with the number of steps times the partial sum: like √K on zero-mean data, like K if partial sums grow. The
gate is max(16, √K/2), or max(16, K/8). TF32 drops 13 bits of each operand, up to 2**−10 of it (2**−11 if rounded), so
with u = 2**−11 the error of a product is at most 4u. On zero-mean data these errors are independent: their sum has a
standard deviation of about 1.6·u·√K, the magnitude is K·2/π, and 5.5 standard deviations, the worst of 16 million
elements, are 14/√K. So min(4, 32/√K) is allowed, in addition to the accumulation error. A constant gate in units of the
type's own roundoff would not work: at K = 4096 an all-zero C has an error of only 6 units of bf16. docs/verification.md
shows how close correct kernels come.

Users' kernels may sum in fp16 or bf16 (their PTX shows it: verify/oracles/arithmetic.py). Everything above then holds
with that type's u and the same gates, as it is the additions that round; tensor cores with fp16 accumulators round
once for 8 or 16 products and are better. fp64 kernels are judged with u = 2**−53 against extended precision.

Underflow. Below 2**−126 fp32 has an absolute spacing of 2**−149, so rounding has an error of up to 2**−150 at any
magnitude. Only operations with a product can commit it (sums of fp32 numbers are exact there): K terms, scaled by
alpha, then the products with alpha and with beta. The floor is twice that, since both a product and its addition may
commit 2**−150:

    floor = (|alpha|·K + 2) · 2**−149

It is subtracted from the error before ρ is computed. Flushing to zero has an error of up to 2**−126, 2**23 times more.

Zero magnitude. Where the magnitude is 0 every term is exactly zero, and the result must be 0 (of either sign).

Infinities and NaN. Expected NaN ⇔ got NaN, expected ±Inf ⇔ got the same Inf. Where a partial sum *may* leave fp32's
range (magnitude of a stage at least 2**127) the order of summation decides. There two more results are accepted: the
finite value within its bound if overflow was expected, and an infinity if a finite value was expected. NaN is not
accepted. Where alpha is infinite and the sign of the product is lost in rounding, any non-finite value is accepted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.problem import BF16, DTYPES, FP16, FP32, FP64, TF32, DType, Problem
from gemmsmith.verify.oracles.epilogue import output_rounding
from gemmsmith.verify.oracles.reference import Reference, float64_reference

F64 = NDArray[np.float64]

ZERO_MEAN_GATE = 16.0
# Growing errors: 16·√K/8 = 2·√K; 0.7·√K was measured.
_GROWTH_STARTS = 8.0


def gate(k: int, errors_grow: bool = False) -> float:
    """The largest accepted ρ for sums of ``k`` terms."""
    if not errors_grow:
        return ZERO_MEAN_GATE
    return ZERO_MEAN_GATE * max(1.0, math.sqrt(k) / _GROWTH_STARTS)


@dataclass(frozen=True)
class Accuracy:
    """The unit of ρ, and the largest accepted ρ."""

    unit: float
    gate: float


PARTS = "parts"
_OF_PARTS = 8.0  # two parts of TF32 that are cut off, not rounded, keep 21 of 24 bits


def accuracy(
    arithmetic: str, k: int, errors_grow: bool = False, accumulator: DType | None = None, factors: str = ""
) -> Accuracy:
    """The accuracy that a correct kernel reaches for sums of ``k`` terms.

    arithmetic   'fp32', 'bf16x6' and 'fp16x3' (no worse than fp32), 'int8'; 'fp16', 'bf16', 'tf32' on tensor cores
    accumulator  the type of the sums, where it is not fp32
    factors      'fp16' or 'bf16': fp32 operands are rounded to it before they are multiplied; 'parts': they are split
                 into two or three numbers of a narrower type, and the smallest products are left out
    """
    if accumulator is not None:
        return Accuracy(accumulator.unit_roundoff, gate(k, errors_grow))
    if factors == PARTS:
        return Accuracy(FP32.unit_roundoff, _OF_PARTS * gate(k, errors_grow))
    if factors:
        # As for TF32 below, with the unit of the narrower type.
        unit = DTYPES[factors].unit_roundoff
        rounded = 4.0 if errors_grow else min(4.0, 32.0 / math.sqrt(max(1, k)))
        return Accuracy(unit, rounded + ZERO_MEAN_GATE * FP32.unit_roundoff / unit)
    if arithmetic in ("fp32", "bf16x6", "fp16x3", "int8"):
        return Accuracy(FP32.unit_roundoff, gate(k, errors_grow))
    accumulation = max(ZERO_MEAN_GATE, k / 8 if errors_grow else math.sqrt(k) / 2)
    if arithmetic == "tf32":
        rounded = 4.0 if errors_grow else min(4.0, 32.0 / math.sqrt(max(1, k)))
        return Accuracy(TF32.unit_roundoff, rounded + accumulation * FP32.unit_roundoff / TF32.unit_roundoff)
    return Accuracy(FP32.unit_roundoff, accumulation)


def theory(k: int) -> float:
    """The textbook bound on ρ for any order of summation: (K+2)/(1 − (K+2)·u)."""
    roundings = k + 2
    used = roundings * FP32.unit_roundoff
    return roundings / (1.0 - used) if used < 1 else math.inf


# The spacing of a type's subnormal numbers.
_SPACING = {FP32: 2.0**-149, FP16: 2.0**-24, BF16: 2.0**-133, FP64: 2.0**-1074}


def absolute_floor(problem: Problem, accumulator: DType | None = None) -> float:
    """The absolute error that underflow may cause."""
    alpha = abs(problem.alpha) if math.isfinite(problem.alpha) else 1.0
    return (alpha * problem.k + 2.0) * _SPACING[accumulator or FP32]


def rounded_terms(problem: Problem, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> F64:
    """The error of an epilogue that rounds to C's type on the way: s to that type, alpha·s, beta·c, each by half a unit
    in the last place at most. The sum's own rounding is counted for every kernel."""
    with np.errstate(all="ignore"):
        product = float64_reference(problem.with_(beta=0.0), a, b, c).exact
        added = np.abs(problem.beta * c.astype(np.float64)) if problem.beta else 0.0
        rounded: F64 = problem.out_dtype.unit_roundoff * (2.0 * np.abs(product) + added) * (1 + 2.0**-7)
        return rounded


def error_ratios(
    problem: Problem,
    got: NDArray[Any],
    reference: Reference,
    unit: float = FP32.unit_roundoff,
    accumulator: DType | None = None,
    more: F64 | float = 0.0,
) -> F64:
    """ρ of every element: 0 for an expected infinity or NaN, infinite or NaN for an unexpected one.

    NaN in ``got`` stays NaN unless NaN was expected, so test with ``not (ρ <= gate)``, never with ``ρ > gate``.
    ``more`` is an error that every element may have besides.
    """
    with np.errstate(all="ignore"):
        wide = got.astype(np.float64)
        scale = unit * reference.magnitude
        floor = absolute_floor(problem, accumulator) + output_rounding(problem.out_dtype, reference.exact)
        floor = floor + np.nan_to_num(more, nan=0.0, posinf=0.0)
        ratios = _ratios(wide, reference.value, scale, floor)
        if reference.may_overflow.any():
            without = _ratios(wide, reference.exact, scale, floor)
            without = np.where(np.isinf(wide) & np.isfinite(reference.value), 0.0, without)
            ratios = np.where(
                reference.may_overflow & (without < np.nan_to_num(ratios, nan=np.inf, posinf=np.inf)), without, ratios
            )
        return np.where(reference.undecided & ~np.isfinite(wide), 0.0, ratios)


def _ratios(got: F64, expected: F64, scale: F64, floor: F64) -> F64:
    error = np.maximum(np.abs(got - expected) - floor, 0.0)  # np.maximum keeps NaN
    ratio = error / scale
    ratio = np.where(scale == 0, np.where(got == expected, 0.0, np.inf), ratio)
    # If either is not finite, both must be of the same class.
    same = (np.isnan(expected) & np.isnan(got)) | (expected == got)
    return np.where(np.isfinite(expected) & ~np.isinf(got), ratio, np.where(same, 0.0, np.inf))
