"""The expected C: in float64 with its magnitude (extended precision for fp64), exactly in integers, and modulo 2**32.

Operands are as stored; each reference transposes according to the problem. No reference reads C if beta is 0, so 0·NaN
cannot occur. As in BLAS there is no product if alpha or K is 0: C becomes beta·C, even for K = 0 and an infinite or NaN
alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import UsageError
from gemmsmith.problem import FP64, Problem

Array = NDArray[Any]
F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]

# The smallest number that rounds to infinity in fp32: half-way between the largest fp32 and 2**128.
FP32_OVERFLOW = 2.0**128 - 2.0**103
# Below this Σ|terms| no partial sum overflows, in any order; the factor of two absorbs the rounding.
_SAFE = 2.0**127


@dataclass(frozen=True)
class Reference:
    """The expected C, with everything needed to judge an fp32 result.

    value         the fp32 result without rounding error: infinite where it must overflow
    exact         the same without overflow (the array ``value`` itself if nothing can overflow)
    magnitude     |alpha|·|A|·|B| + |beta|·|C|, the scale of each element's rounding error
    may_overflow  where a partial sum could leave fp32's range, in some order of summation
    undecided     where alpha is infinite and rounding hides the product's sign: any non-finite value is accepted
    """

    value: F64
    exact: F64
    magnitude: F64
    may_overflow: Mask
    undecided: Mask


def has_product(problem: Problem) -> bool:
    """Whether A and B contribute to C."""
    return problem.alpha != 0 and problem.k > 0


def float64_reference(problem: Problem, a: Array, b: Array, c: Array) -> Reference:
    """C and its magnitude in float64, with infinities and NaN where fp32 arithmetic produces them.

    For fp64 operands it is computed in ``longdouble``, which has at least 64 bits on x86-64 and ARM64 Linux.
    """
    is_double = problem.dtype == FP64
    wide: Any = np.longdouble if is_double else np.float64
    alpha = problem.alpha if has_product(problem) else 0.0
    with np.errstate(all="ignore"):
        product = scale = np.zeros(problem.c_shape)
        if alpha != 0:
            left = (a.T if problem.trans_a else a).astype(wide)
            right = (b.T if problem.trans_b else b).astype(wide)
            product, scale = _product(left, right)
        from_c = problem.beta * c.astype(wide) if problem.beta != 0 else np.zeros(problem.c_shape)
        undecided = np.zeros(problem.c_shape, dtype=np.bool_)
        if math.isinf(alpha):
            # 64u is four times the gate on zero-mean data; below it the sign of a rounded sum is undecided.
            undecided = np.isfinite(product) & (scale > 0) & (np.abs(product) <= 64 * 2.0**-24 * scale)
        exact = _scaled(alpha, product) + from_c
        magnitude = abs(alpha) * scale + np.where(np.isfinite(from_c), np.abs(from_c), 0.0)
        may_overflow = ((scale >= _SAFE) | (magnitude >= _SAFE)) & (not is_double)
        value = exact
        if may_overflow.any():
            value = _saturated(_saturated(_scaled(alpha, _saturated(product))) + from_c)
    return Reference(value, exact, magnitude, may_overflow, undecided)


def exact_reference(problem: Problem, a: Array, b: Array, c: Array) -> NDArray[np.int64]:
    """C in 64-bit integers. Operands, alpha and beta must be integers; anything else is refused.

    The product uses float64, which is exact below 2**53 and forty times faster than int64; larger sums use int64.
    """
    for name, factor in (("alpha", problem.alpha), ("beta", problem.beta)):
        if not (math.isfinite(factor) and factor == int(factor)):
            raise UsageError(f"an exact reference needs an integer {name}, not {factor:g}", "use mode 'float'")
    result = np.zeros(problem.c_shape, dtype=np.int64)
    if has_product(problem):
        left = _integers("A", a.T if problem.trans_a else a)
        right = _integers("B", b.T if problem.trans_b else b)
        largest = problem.k * float(np.abs(left).max(initial=0)) * float(np.abs(right).max(initial=0))
        product = left @ right if largest < 2.0**53 else left.astype(np.int64) @ right.astype(np.int64)
        result += int(problem.alpha) * product.astype(np.int64)
    if problem.beta != 0:
        result += int(problem.beta) * _integers("C", c).astype(np.int64)
    return result


def mod32_reference(
    problem: Problem, a: Array, b: Array, c: Array, alpha_bits: int | None = None
) -> NDArray[np.uint32]:
    """C if every +, × and fma works on 32-bit patterns modulo 2**32, where the order of summation does not matter.

    alpha and beta are the bit patterns of the fp32 scalars that the kernel receives; ``alpha_bits`` replaces alpha's if
    the kernel has no alpha (1: no scaling). beta = 0 and alpha = 0 are tested as floats, as a kernel does.
    """
    result = np.zeros(problem.c_shape, dtype=np.uint32)
    if has_product(problem):
        left = _patterns(a.T if problem.trans_a else a)
        right = _patterns(b.T if problem.trans_b else b)
        factor = pattern_of(problem.alpha) if alpha_bits is None else np.uint32(alpha_bits)
        result = (left @ right) * factor
    if problem.beta != 0:
        result = result + _patterns(c) * pattern_of(problem.beta)
    return result


def pattern_of(value: float) -> np.uint32:
    """The 32 bits of an fp32 number."""
    return np.uint32(np.float32(value).view(np.uint32))


def _patterns(values: Array) -> NDArray[np.uint32]:
    if values.dtype != np.float32:
        raise UsageError(f"arithmetic modulo 2**32 needs fp32 operands, not {values.dtype}")
    return np.ascontiguousarray(values).view(np.uint32)


def _integers(name: str, values: Array) -> F64:
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float64)
    if not (np.isfinite(wide) & (wide == np.trunc(wide))).all():
        raise UsageError(f"an exact reference needs integers in {name}", "use the fill 'integers'")
    return wide


def _scaled(alpha: float, product: F64) -> F64:
    # alpha = 0 is never multiplied: no 0·Inf.
    return alpha * product if alpha != 0 else np.zeros_like(product)


def _saturated(values: F64) -> F64:
    return np.where(np.abs(values) >= FP32_OVERFLOW, np.copysign(np.inf, values), values)


def _product(left: F64, right: F64) -> tuple[F64, F64]:
    """A·B and |A|·|B| of the finite parts, then infinities and NaN where some term produces them.

    BLAS gets only finite numbers: it may skip a 0·Inf.
    """
    finite_left, finite_right = np.isfinite(left), np.isfinite(right)
    if finite_left.all() and finite_right.all():
        return left @ right, _magnitude(left, right)
    plain_left, plain_right = np.where(finite_left, left, 0.0), np.where(finite_right, right, 0.0)
    product = plain_left @ plain_right
    up = _any_term(left == np.inf, right > 0) | _any_term(left == -np.inf, right < 0)
    up |= _any_term(left > 0, right == np.inf) | _any_term(left < 0, right == -np.inf)
    down = _any_term(left == np.inf, right < 0) | _any_term(left == -np.inf, right > 0)
    down |= _any_term(left > 0, right == -np.inf) | _any_term(left < 0, right == np.inf)
    undefined = _any_term(np.isinf(left), right == 0) | _any_term(left == 0, np.isinf(right))
    undefined |= np.isnan(left).any(axis=1, keepdims=True) | np.isnan(right).any(axis=0, keepdims=True) | (up & down)
    product = np.where(up, np.inf, np.where(down, -np.inf, product))
    return np.where(undefined, np.nan, product), _magnitude(plain_left, plain_right)


def _magnitude(left: F64, right: F64) -> F64:
    """|A|·|B|, in float64 where it neither overflows nor underflows: errors are compared with it, and BLAS is fast."""
    left, right = np.abs(left), np.abs(right)
    if all(((x == 0) | ((x > 2.0**-400) & (x < 2.0**400))).all() for x in (left, right)):
        left, right = left.astype(np.float64), right.astype(np.float64)
    found: F64 = left @ right
    return found


def _any_term(left: Mask, right: Mask) -> Mask:
    """Where left[i, k] and right[k, j] hold for some k."""
    found: Mask = left.astype(np.float64) @ right.astype(np.float64) > 0
    return found
