"""Arithmetic in all four rounding modes.

A result is first rounded to nearest. What the exact result lies above or below it by decides whether a directed mode
takes the neighbour instead. Products of fp32 numbers are exact in float64, and the error of a float64 sum is a float64
number: both signs are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemmsmith.sim.arithmetic import exact64
from gemmsmith.sim.arithmetic.rounding import canonical32, float_max, float_min, fma32, round_to_odd_sum
from gemmsmith.sim.ptx.types import Array

Function = Callable[..., Any]
MODES = "rn rz rm rp"
_SMALLEST_32 = np.float32(2.0**-126)


def flush32(x: Array) -> Array:
    """fp32 values with subnormal numbers replaced by zeros of their sign."""
    small = np.abs(x) < _SMALLEST_32
    return np.where(small, np.copysign(np.float32(0), x), x) if np.any(small) else np.asarray(x)


def saturate(x: Array) -> Array:
    """Clamp to [0, 1]; NaN and −0 become +0."""
    one = np.asarray(x).dtype.type(1)
    return np.where(x >= one, one, np.where(x > 0, x, one - one))


def is_tiny(exact: Array, result: Array, mode: str) -> Array:
    """Which fp32 results .ftz makes zero: those below 2^−126 once rounded to 24 bits, however small the exponent."""
    size = np.abs(exact)
    rounds_up = 2.0**-126 - size <= 2.0**-151 if mode == "rn" else 2.0**-126 - size < 2.0**-150
    below = (np.abs(result) == _SMALLEST_32) & (size < 2.0**-126) & ~rounds_up
    tiny: Array = (np.abs(result) < _SMALLEST_32) | below
    return tiny


def choose_neighbour(nearest: Array, above: Array, mode: str) -> Array:
    """The result in a rounding mode; ``above`` is the sign of what the exact result exceeds ``nearest`` by."""
    if mode == "rn":
        return nearest
    kind = nearest.dtype.type
    with np.errstate(invalid="ignore"):
        up = (above > 0) & (mode == "rp" or ((mode == "rz") & (nearest < 0)))
        down = (above < 0) & (mode == "rm" or ((mode == "rz") & (nearest > 0)))
    result = np.where(up, np.nextafter(nearest, kind(np.inf)), nearest)
    return np.where(down, np.nextafter(nearest, kind(-np.inf)), result)


def _sum_32(x: Array, y: Array, nearest: Array, mode: str) -> Array:
    """x + y, both float64 and exact, whose nearest fp32 number is known."""
    total = x + y
    difference = total - nearest.astype(np.float64)
    above = np.where(difference != 0, np.sign(difference), np.sign(exact64.sum_error(x, y, total)))
    result = choose_neighbour(nearest, above, mode)
    if mode == "rm":  # an exact zero is negative, unless both are positive zeros
        zero = (total == 0) & ~((x == 0) & ~np.signbit(x) & ~np.signbit(y))
        result = np.where(zero, np.float32(-0.0), result)
    return result


def _wide(*values: Array) -> tuple[Array, ...]:
    return tuple(np.atleast_1d(x).astype(np.float64) for x in np.broadcast_arrays(*values))


def _add(a: Array, b: Array, mode: str) -> Array:
    x, y = _wide(a, b)
    return _sum_32(x, y, np.add(a, b, dtype=np.float32), mode)


def _subtract(a: Array, b: Array, mode: str) -> Array:
    return _add(a, np.negative(b), mode)


def _multiply(a: Array, b: Array, mode: str) -> Array:
    x, y = _wide(a, b)
    product, nearest = x * y, np.multiply(a, b, dtype=np.float32)
    return choose_neighbour(nearest, product - nearest, mode)


def _fma(a: Array, b: Array, c: Array, mode: str) -> Array:
    x, y, z = _wide(a, b, c)
    return _sum_32(x * y, z, fma32(a, b, c), mode)


def _divide(a: Array, b: Array, mode: str) -> Array:
    x, y = _wide(a, b)
    nearest = np.divide(a, b, dtype=np.float32)
    return choose_neighbour(nearest, np.sign(x - nearest * y) * np.sign(y), mode)


def _root(a: Array, mode: str) -> Array:
    (x,) = _wide(a)
    nearest = np.sqrt(np.atleast_1d(a))
    return choose_neighbour(nearest, x - nearest.astype(np.float64) ** 2, mode)


def _reciprocal(a: Array, mode: str) -> Array:
    return _divide(np.ones_like(a), a, mode)


_OPERATIONS: dict[str, Callable[..., Array]] = {
    "add": _add, "sub": _subtract, "mul": _multiply, "fma": _fma, "mad": _fma, "div": _divide, "rcp": _reciprocal,
    "sqrt": _root,
}  # fmt: skip


# The result in float64, close enough to tell how it rounds.
_EXACT: dict[str, Callable[..., Array]] = {
    "mul": lambda a, b: a * b, "fma": lambda a, b, c: round_to_odd_sum(a * b, c), "div": lambda a, b: a / b,
    "rcp": lambda a: 1 / a,
}  # fmt: skip


def arithmetic32(name: str, mode: str = "rn", ftz: bool = False, sat: bool = False) -> Function:
    """An fp32 instruction by name, rounding mode and modifiers. NaN results are canonical."""
    operation = _OPERATIONS[name]

    def compute(*values: Array) -> Array:
        if ftz:
            values = tuple(flush32(x) for x in values)
        result = canonical32(operation(*values, mode))
        if ftz:
            exact = _EXACT[name](*_wide(*values)) if name in _EXACT else result
            result = np.where(is_tiny(exact, result, mode), np.copysign(np.float32(0), result), result)
        return saturate(result) if sat else result

    return compute


def least32(greatest: bool, ftz: bool, nan: bool, xorsign: bool) -> Function:
    """min and max of fp32 numbers: with .NaN a NaN wins; with .xorsign.abs sizes are compared."""
    choose = float_max if greatest else float_min

    def compute(a: Array, b: Array) -> Array:
        a, b = (np.atleast_1d(x) for x in np.broadcast_arrays(a, b))
        if ftz:
            a, b = flush32(a), flush32(b)
        negative = np.signbit(a) ^ np.signbit(b)
        if xorsign:
            a, b = np.abs(a), np.abs(b)
        result = choose(a, b)
        if xorsign:
            result = np.where(negative, -result, result)
        if nan:
            result = np.where((a != a) | (b != b), np.float32(np.nan), result)
        return canonical32(result)

    return compute
