"""How wrong an honest result may be, and where the thresholds come from.

The measure. With u = 2**−24 and magnitude = |alpha|·|A|·|B| + |beta|·|C|, element by element,

    ρ = |Ĉ − C| / (u · magnitude)

The textbook (Higham, *Accuracy and Stability*, §3.1) guarantees ρ ≤ n/(1 − n·u) with n = K + 2: K roundings in the
sum in any order, one for alpha, one for beta. It is printed as ``theory`` and is useless as a threshold: at
K = 16,384 it accepts a dropped term every time, because one term of the sum is about 1/K of the magnitude.

The gate. On zero-mean data the errors themselves are a random walk over partial sums that stay near √k, and ρ does
not grow with K: honest kernels stay below ρ = 5 up to K = 65,536. The gate is 16, three times that, and still catches
one dropped term at K = 16,384 in 96 % of cases. Where partial sums are as large as the sum of magnitudes (positive
data; or one term far above the rest, as in the fill 'wide') each of K additions errs by up to u/2 of the whole sum and
the walk gives ρ ≈ 0.7·√K, and the largest of thousands of outputs 1.4·√K (docs/verification.md has the calibration).
There the gate is 16·max(1, √K/8), which is 2·√K from K = 64 on.

fp16 and bf16 inputs: the product of two of them has at most 22 bits, so it is exact in fp32; sums are in fp32. Same u,
same gate. int8 inputs: sums are exact in int32, and the gate is for the roundings of alpha, beta and bias.

Tensor cores add 8 or 16 products to the sum at a time and truncate (docs/simulator.md): errors have a sign, and grow
with the number of steps times the partial sum, like √K on zero-mean data and like K where partial sums grow: 16 or
√K/2 is allowed, or K/8. TF32 drops 13 bits of each operand, up to 2**−10 of it (2**−11 if rounded): with u = 2**−11 a
product errs by 4u at most. On zero-mean data these errors are independent: their sum deviates by about 1.6·u·√K, the
magnitude is K·2/π, and five and a half deviations, the worst of 16 million elements, are 14/√K; so min(4, 32/√K) is
allowed, and besides what the sums may err. Units of a type's own roundoff with a constant gate would not do: at
K = 4096 a C of zeros is off by only 6 units of bf16. How near honest kernels come is in docs/verification.md.

Underflow. Below 2**−126 fp32 has an absolute spacing of 2**−149, and rounding errs by up to 2**−150 whatever the
magnitude. Of the operations, only those with a product can (sums of fp32 numbers are exact there): K terms, scaled by
alpha, then the products with alpha and with beta. Twice that is allowed for, since 2**−150 may be committed in both a
product and the sum it joins:

    floor = (|alpha|·K + 2) · 2**−149

It is subtracted from the error before ρ is taken. Flushing to zero errs by up to 2**−126, 2**23 times as much.

No magnitude, no error. Where the magnitude is 0 every term is an exact zero: the result must be 0 (either sign).

Infinities and NaN. Expected NaN ⇔ got NaN, expected ±Inf ⇔ got the same Inf. Where a partial sum *may* leave fp32's
range (magnitude of a stage at least 2**127) the order of summation decides what happens, so there are accepted as
well: the finite value within its bound, although overflow was expected; and an infinity, although a finite value was
expected. NaN is not accepted there. Where alpha is infinite and the sign of the product is lost in
rounding, any non-finite value is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.problem import FP32, TF32, Problem
from gemmsmith.verify.epilogue import output_rounding
from gemmsmith.verify.reference import Reference

F64 = NDArray[np.float64]

ZERO_MEAN_GATE = 16.0
# Growing errors: 16·√K/8 = 2·√K, against 0.7·√K measured.
_GROWTH_STARTS = 8.0


def gate(k: int, errors_grow: bool = False) -> float:
    """The largest ρ that is accepted for sums of ``k`` terms."""
    if not errors_grow:
        return ZERO_MEAN_GATE
    return ZERO_MEAN_GATE * max(1.0, math.sqrt(k) / _GROWTH_STARTS)


@dataclass(frozen=True)
class Accuracy:
    """The unit of ρ, and the largest ρ that is accepted."""

    unit: float
    gate: float


def accuracy(arithmetic: str, k: int, errors_grow: bool = False) -> Accuracy:
    """What an honest kernel stays within for sums of ``k`` terms.

    arithmetic  'fp32' (and 'bf16x6' and 'fp16x3', which are no worse, and exact integers); 'fp16', 'bf16' or 'tf32' on
                tensor cores
    """
    if arithmetic in ("fp32", "bf16x6", "fp16x3", "int8"):
        return Accuracy(FP32.unit_roundoff, gate(k, errors_grow))
    sums = max(ZERO_MEAN_GATE, k / 8 if errors_grow else math.sqrt(k) / 2)
    if arithmetic == "tf32":
        factors = 4.0 if errors_grow else min(4.0, 32.0 / math.sqrt(max(1, k)))
        return Accuracy(TF32.unit_roundoff, factors + sums * FP32.unit_roundoff / TF32.unit_roundoff)
    return Accuracy(FP32.unit_roundoff, sums)


def theory(k: int) -> float:
    """The largest ρ that any order of summation can produce, by the textbook: (K+2)/(1 − (K+2)·u)."""
    roundings = k + 2
    used = roundings * FP32.unit_roundoff
    return roundings / (1.0 - used) if used < 1 else math.inf


def absolute_floor(problem: Problem) -> float:
    """The absolute error that underflow alone may cause."""
    alpha = abs(problem.alpha) if math.isfinite(problem.alpha) else 1.0
    return (alpha * problem.k + 2.0) * 2.0**-149


def error_ratios(problem: Problem, got: NDArray[Any], reference: Reference, unit: float = FP32.unit_roundoff) -> F64:
    """ρ of every element: 0 where an infinity or NaN was expected and came, infinite or NaN where it is wrong.

    NaN in ``got`` stays NaN here unless NaN was expected, so test with ``not (ρ <= gate)``, never with ``ρ > gate``.
    """
    with np.errstate(all="ignore"):
        wide = got.astype(np.float64)
        scale = unit * reference.magnitude
        floor = absolute_floor(problem) + output_rounding(problem.out_dtype, reference.exact)
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
    # Where either is not finite they must be of the same class.
    same = (np.isnan(expected) & np.isnan(got)) | (expected == got)
    return np.where(np.isfinite(expected) & ~np.isinf(got), ratio, np.where(same, 0.0, np.inf))
