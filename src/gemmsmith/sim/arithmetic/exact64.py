"""fp64 arithmetic in all rounding modes, from sums and products whose errors are known exactly.

Where an error could underflow or overflow, the few lanes concerned are computed with integers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from gemmsmith.sim.ptx.types import Array

_SPLIT = float(2**27 + 1)
# Within these sizes no intermediate result of a split product underflows or overflows.
_LEAST, _MOST = 2.0**-480, 2.0**480


def sum_error(x: Array, y: Array, total: Array) -> Array:
    """What x + y exceeds the float64 ``total`` by (Knuth's two-sum); exact where everything is finite."""
    shifted = total - x
    error: Array = (x - (total - shifted)) + (y - shifted)
    return error


def _product(x: Array, y: Array) -> tuple[Array, Array]:
    """x·y and its rounding error (Dekker)."""
    product = x * y
    xh, yh = x * _SPLIT, y * _SPLIT
    xh, yh = xh - (xh - x), yh - (yh - y)
    xl, yl = x - xh, y - yh
    error: Array = ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
    return product, error


def _moderate(*values: Array) -> Array:
    """Where each value is zero or of a size at which products are safe."""
    good: Array = np.ones(np.shape(values[0]), bool)
    for x in values:
        size = np.abs(x)
        good &= (size == 0) | ((size > _LEAST) & (size < _MOST))
    return good


def _are_singles(x: Array) -> bool:
    """Whether every value fits into 24 bits and fp32's range, as integers of a test do."""
    with np.errstate(over="ignore", under="ignore"):
        return bool((x.astype(np.float32) == x).all())


def _odd_sum(x: Array, y: Array) -> Array:
    total = x + y
    error = sum_error(x, y, total)
    inexact = np.isfinite(total) & (error != 0) & ((total.view(np.uint64) & np.uint64(1)) == 0)
    towards = np.where(error > 0, np.inf, -np.inf)
    result: Array = np.where(inexact, np.nextafter(total, towards), total)
    return result


def neighbour(nearest: Array, above: Array, mode: str) -> Array:
    """The result in a rounding mode; ``above`` has the sign of what the exact result exceeds ``nearest`` by."""
    if mode == "rn":
        return nearest
    up = (above > 0) & ((mode == "rp") | ((mode == "rz") & (nearest < 0)))
    down = (above < 0) & ((mode == "rm") | ((mode == "rz") & (nearest > 0)))
    result = np.where(up, np.nextafter(nearest, np.inf), nearest)
    return np.where(down, np.nextafter(nearest, -np.inf), result)


def fma(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """a·b + c, rounded once (Boldo and Melquiond)."""
    a, b, c = (np.atleast_1d(x).astype(np.float64) for x in np.broadcast_arrays(a, b, c))
    if mode == "rn" and _are_singles(a) and _are_singles(b):  # the product is exact
        plainly: Array = a * b + c
        return plainly
    product, low = _product(a, b)
    upper = c + low
    upper_error = sum_error(c, low, upper)
    total = product + upper
    total_error = sum_error(product, upper, total)
    rest = _odd_sum(total_error, upper_error)
    result: Array = total + rest
    result = neighbour(result, sum_error(total, rest, result), mode)
    plain = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    zero = (a == 0) | (b == 0)
    result = np.where(plain | zero, a * b + c, result)
    result = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, result)  # the product may overflow
    if mode == "rm":
        cancelled = (result == 0) & ~plain & ~(~(np.signbit(a) ^ np.signbit(b)) & ~np.signbit(c))
        result = np.where(cancelled, -0.0, result)
    unsafe = ~(_moderate(a, b, c) & ((np.abs(product) > _LEAST) | zero)) & ~plain & ~zero
    return _redo(result, unsafe, lambda x, y, z: _as_ratio(x) * _as_ratio(y) + _as_ratio(z), (a, b, c), mode)


def add(a: Array, b: Array, mode: str = "rn") -> Array:
    """a + b"""
    a, b = (np.atleast_1d(x).astype(np.float64) for x in np.broadcast_arrays(a, b))
    total: Array = a + b
    error = sum_error(a, b, total)
    # A sum that overflowed has no error; the exact result lies inside.
    error = np.where(np.isinf(total) & np.isfinite(a) & np.isfinite(b), -np.sign(total), error)
    result = neighbour(total, np.where(np.isnan(error), 0, error), mode)
    if mode == "rm":
        zero = (total == 0) & ~(~np.signbit(a) & ~np.signbit(b))
        result = np.where(zero, -0.0, result)
    return result


def multiply(a: Array, b: Array, mode: str = "rn") -> Array:
    """a·b"""
    a, b = (np.atleast_1d(x).astype(np.float64) for x in np.broadcast_arrays(a, b))
    product, error = _product(a, b)
    finite = np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    safe = finite & _moderate(a, b) & (np.abs(product) > _LEAST)
    result = np.where(safe, neighbour(product, error, mode), a * b)
    return _redo(result, finite & ~safe, lambda x, y: _as_ratio(x) * _as_ratio(y), (a, b), mode)


def divide(a: Array, b: Array, mode: str = "rn") -> Array:
    """a / b"""
    a, b = (np.atleast_1d(x).astype(np.float64) for x in np.broadcast_arrays(a, b))
    quotient: Array = a / b
    finite = np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    safe = finite & _moderate(a, b) & (np.abs(quotient) > _LEAST)
    back, error = _product(np.where(safe, quotient, 1.0), np.where(safe, b, 1.0))
    rest = (np.where(safe, a, 1.0) - back) - error
    result = np.where(safe, neighbour(quotient, rest * np.sign(b), mode), quotient)
    return _redo(result, finite & ~safe, lambda x, y: _as_ratio(x) / _as_ratio(y), (a, b), mode)


def root(a: Array, mode: str = "rn") -> Array:
    """√a"""
    a = np.atleast_1d(a).astype(np.float64)
    nearest: Array = np.sqrt(a)
    if mode == "rn":
        return nearest
    finite = np.isfinite(a) & (a > 0)
    return _redo(nearest, finite, _root_ratio, (a,), mode)


def _as_ratio(x: float) -> Fraction:
    return Fraction(float(x))


def _root_ratio(x: float) -> Fraction:
    """A number on the same side of every fp64 number as √x."""
    scaled = _as_ratio(x) * (1 << 2400)
    base = isqrt(scaled.numerator // scaled.denominator)
    exact = base * base == scaled
    return Fraction(2 * base + (not exact), 2 << 1200)


def _redo(
    result: Array, where: Array, exactly: Callable[..., Fraction], operands: tuple[Array, ...], mode: str
) -> Array:
    """Replace the lanes ``where`` by the exact rational result, rounded."""
    if not where.any():
        return result
    result = result.copy()
    for lane in np.flatnonzero(where):
        value = exactly(*(x[lane] if x.ndim == 1 else x.reshape(-1)[lane] for x in operands))
        flat: Any = result.reshape(-1)
        flat[lane] = round_ratio(value, mode) if value else (-0.0 if mode == "rm" else 0.0)
    return result


def round_ratio(value: Fraction, mode: str) -> float:
    """A rational number as fp64."""
    size = abs(value)
    scale = size.numerator.bit_length() - size.denominator.bit_length()
    scale -= size < Fraction(2) ** scale
    quantum = max(scale - 52, -1074)
    count = size / Fraction(2) ** quantum
    away = (mode == "rp" and value > 0) or (mode == "rm" and value < 0)
    whole = round(count) if mode == "rn" else -(-count.numerator // count.denominator) if away else int(count)
    try:
        rounded = float(whole * Fraction(2) ** quantum)
    except OverflowError:
        rounded = float("inf")
    if rounded == float("inf") and not (mode == "rn" or away):
        rounded = float(np.finfo(np.float64).max)
    return rounded if value > 0 else -rounded
