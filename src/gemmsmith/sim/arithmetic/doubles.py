"""float64 fused multiply-add, rounded once to nearest even.

The product is split into two float64 numbers whose sum is exact, and added to the third operand with one rounding to
odd before the last rounding (Boldo and Melquiond 2008). Near the ends of the exponent range the parts are not exact;
those few lanes are computed with Python's fractions.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from gemmsmith.sim.arithmetic.rounding import round_to_odd_sum
from gemmsmith.sim.ptx.types import Array

_SPLIT = float(2**27 + 1)
_LARGE, _SMALL = 2.0**500, 2.0**-400  # factors between these leave the parts of a product exact


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a·b + c. NaN and infinity are those of plain arithmetic."""
    a, b, c = (np.array(x, np.float64, ndmin=1) for x in np.broadcast_arrays(a, b, c))
    with np.errstate(all="ignore"):
        factors = np.isfinite(a) & np.isfinite(b)
        plain = np.where(factors & np.isinf(c), c, a * b + c)  # a finite product may overflow by itself
        high, low = _product(a, b)
        upper, upper_error = _sum(c, low)
        total, total_error = _sum(high, upper)
        result = total + round_to_odd_sum(upper_error, total_error)
        exact = high == 0  # a factor is zero: there is nothing to round but c, and signs of zero matter
        result = np.where(exact | (result == 0), plain, result)
        finite = factors & np.isfinite(c)
        edge = finite & ~_safe(a, b, c)
    for at in np.argwhere(edge):
        place = tuple(at)
        result[place] = _exactly(float(a[place]), float(b[place]), float(c[place]))
    return np.where(finite, result, plain)


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """a·b as a float64 number and what it lacks."""
    product = a * b
    a_high, b_high = (_SPLIT * x - (_SPLIT * x - x) for x in (a, b))
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _sum(x: Array, y: Array) -> tuple[Array, Array]:
    """x + y as a float64 number and what it lacks."""
    total = x + y
    shifted = total - x
    return total, (x - (total - shifted)) + (y - shifted)


def _safe(a: Array, b: Array, c: Array) -> Array:
    """Whether every part of the computation is exact or zero."""

    def moderate(x: Array) -> Array:
        size = np.abs(x)
        result: Array = (size == 0) | ((size > _SMALL) & (size < _LARGE))
        return result

    return moderate(a) & moderate(b) & moderate(c)


def _exactly(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a == 0 or b == 0 or c == 0 else 0.0
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
