"""Arithmetic of fp16 and bf16 numbers, single or two in a word, rounded once to nearest even.

Sums and products are taken in float64. NaN results are canonical (0x7FFF).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from gemmsmith.sim.arithmetic import sfu
from gemmsmith.sim.arithmetic.rounding import (
    CANONICAL_NAN_16,
    float_max,
    float_min,
    round_to_odd_sum,
    to_bfloat,
    to_half,
)
from gemmsmith.sim.ptx.types import Array

Function = Callable[..., Any]
KINDS = "f16 f16x2 bf16 bf16x2"
_BFLOAT = np.dtype(ml_dtypes.bfloat16)
_SMALLEST = {"f16": 2.0**-14, "bf16": 2.0**-126}


def packed(kind: str, function: Function) -> Function:
    """The function of a single number, or of both numbers of a word if the type ends with x2."""
    if not kind.endswith("x2"):
        return lambda *values: function(*(np.atleast_1d(x) for x in np.broadcast_arrays(*values)))
    single = np.dtype(np.float16) if kind == "f16x2" else _BFLOAT

    def both(*words: Array) -> Array:
        halves = []
        for shift in (0, 16):
            parts = [(np.atleast_1d(w) >> np.uint32(shift)).astype(np.uint16).view(single) for w in words]
            halves.append(np.asarray(function(*np.broadcast_arrays(*parts))).view(np.uint16).astype(np.uint32))
        return halves[0] | (halves[1] << np.uint32(16))

    return both


def unpacked(kind: str, word: Array) -> tuple[Array, Array]:
    """The lower and the upper number of a word."""
    single = np.dtype(np.float16) if kind == "f16x2" else _BFLOAT
    lower, upper = ((np.atleast_1d(word) >> np.uint32(s)).astype(np.uint16).view(single) for s in (0, 16))
    return lower, upper


def _wide(x: Array) -> Array:
    return np.asarray(x).astype(np.float64)


_OPERATIONS: dict[str, Callable[..., Array]] = {
    "add": round_to_odd_sum,
    "sub": lambda a, b: round_to_odd_sum(a, -b),
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: round_to_odd_sum(a * b, c),
}


def _narrow(kind: str) -> Callable[[Array], Array]:
    return to_half if kind.startswith("f") else to_bfloat


def flush(kind: str, x: Array) -> Array:
    """Subnormal fp16 numbers become zeros of their sign."""
    small = np.abs(x) < _SMALLEST[kind]
    return np.where(small, np.copysign(np.asarray(0, x.dtype), x), x)


def arithmetic(name: str, kind: str, ftz: bool = False, sat: bool = False, relu: bool = False) -> Function:
    """add, sub, mul and fma; .sat clamps to [0, 1] with NaN as 0, .relu makes negative results zero."""
    single = kind.removesuffix("x2")
    operation, narrow = _OPERATIONS[name], _narrow(single)

    def compute(*values: Array) -> Array:
        if ftz:
            values = tuple(flush(single, x) for x in values)
        wide = np.atleast_1d(operation(*(_wide(x) for x in values)))
        if ftz:  # what is not rounded up to 2^−14 with 11 bits becomes zero
            wide = np.where(np.abs(wide) < _SMALLEST[single] - 2.0**-26, np.copysign(0.0, wide), wide)
        result = narrow(wide)
        zero = np.asarray(0, result.dtype)
        if sat:
            result = np.where(result > 0, np.minimum(result, np.asarray(1, result.dtype)), zero)
        if relu:
            result = np.where(result <= 0, zero, result)
        return result

    return packed(kind, compute)


def _canonical(x: Array) -> Array:
    """Values with every NaN replaced by the canonical one."""
    nan = x != x
    if np.any(nan):
        x = np.array(x)
        x.view(np.uint16)[nan] = CANONICAL_NAN_16
    return x


def negate(kind: str, ftz: bool = False) -> Function:
    """−x; NaN becomes canonical."""
    return _signs(kind, ftz, lambda bits: bits ^ np.uint16(0x8000))


def absolute(kind: str, ftz: bool = False) -> Function:
    """|x|; NaN becomes canonical."""
    return _signs(kind, ftz, lambda bits: bits & np.uint16(0x7FFF))


def _signs(kind: str, ftz: bool, change: Callable[[Array], Array]) -> Function:
    single = kind.removesuffix("x2")

    def compute(x: Array) -> Array:
        x = flush(single, x) if ftz else x
        return _canonical(change(np.ascontiguousarray(x).view(np.uint16)).view(x.dtype))

    return packed(kind, compute)


def least(kind: str, greatest: bool, ftz: bool, nan: bool, xorsign: bool) -> Function:
    """min and max: with .NaN a NaN wins; with .xorsign.abs sizes are compared."""
    single, choose = kind.removesuffix("x2"), float_max if greatest else float_min

    def compute(a: Array, b: Array) -> Array:
        if ftz:
            a, b = flush(single, a), flush(single, b)
        negative = np.signbit(a) ^ np.signbit(b)
        if xorsign:
            a, b = np.abs(a), np.abs(b)
        result = choose(a, b)
        if xorsign:
            result = np.where(negative, -result, result)
        if nan:
            result = np.where((a != a) | (b != b), np.asarray(np.nan, a.dtype), result)
        return _canonical(result)

    return packed(kind, compute)


def approximate(kind: str, function: Callable[[Array], Array]) -> Function:
    """A result of the special function unit, cut off to 16 bits."""

    def compute(x: Array) -> Array:
        wide = function(np.asarray(x).astype(np.float32))
        if kind.startswith("b"):
            return (wide.view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(_BFLOAT)
        result = wide.astype(np.float16)
        above = (np.abs(result.astype(np.float32)) > np.abs(wide)) & (np.abs(wide) < np.float32(65536))
        result = np.where(above, np.nextafter(result, np.float16(0)), result)
        return _canonical(np.where(np.abs(wide) >= np.float32(65536), np.copysign(np.float16(np.inf), result), result))

    return packed(kind, compute)


def exponential(kind: str) -> Function:
    """ex2.approx"""
    return approximate(kind, sfu.ex2)


def hyperbolic_tangent(kind: str) -> Function:
    """tanh.approx"""
    return approximate(kind, sfu.tanh)
