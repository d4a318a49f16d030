"""The instructions that ptxas builds around the special function unit, for fp32 and fp64 numbers.

Without .ftz, subnormal operands are scaled up and results scaled back, as the machine code does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemmsmith.sim.arithmetic import exact64, sfu
from gemmsmith.sim.arithmetic.directed import arithmetic32, flush32
from gemmsmith.sim.arithmetic.rounding import canonical32, mul32, single64
from gemmsmith.sim.ptx.types import Array

Function = Callable[..., Any]
_SMALLEST, _LARGE = np.float32(2.0**-126), np.float32(2.0**126)
_UP = np.float32(2.0**24)
_NAN = np.uint64(0x7FFFFFFF00000000).view(np.float64)
_TURNS = np.uint32(0x3E22F983).view(np.float32)  # 1/(2π), cut off


def _scaled(unit: Callable[[Array], Array], back: float, add: float = 0.0) -> Callable[[Array], Array]:
    """A function whose small operands are multiplied by 2²⁴, and its results by ``back`` or increased by ``add``."""

    def compute(x: Array) -> Array:
        x = np.atleast_1d(x)
        small = np.abs(x) < _SMALLEST
        result = unit(np.where(small, x * _UP, x))
        moved = result + np.float32(add) if add else result * np.float32(back)
        return canonical32(np.where(small, moved, result))

    return compute


def _reciprocal(x: Array) -> Array:
    x = np.atleast_1d(x)
    scale = np.where(np.abs(x) < _SMALLEST, _UP, np.float32(1))
    scale = np.where(np.abs(x) > _LARGE, np.float32(0.25), scale)
    return mul32(scale, sfu.rcp(scale * x))


def _exponential(x: Array) -> Array:
    x = np.atleast_1d(x)
    small = x < -126
    result = sfu.ex2(np.where(small, x * np.float32(0.5), x))
    return np.where(small, result * result, result)


def _angle(function: Callable[[Array], Array], ftz: bool) -> Callable[[Array], Array]:
    multiply = arithmetic32("mul", "rz", ftz)
    return lambda x: function(multiply(np.atleast_1d(x), _TURNS))


_PLAIN: dict[str, Callable[[Array], Array]] = {
    "rcp": _reciprocal, "rsqrt": _scaled(sfu.rsqrt, 4096.0), "sqrt": _scaled(sfu.sqrt, 2.0**-12),
    "lg2": _scaled(sfu.lg2, 1.0, -24.0), "ex2": _exponential, "tanh": sfu.tanh,
}  # fmt: skip
_FLUSHED: dict[str, Callable[[Array], Array]] = {
    "rcp": sfu.rcp, "rsqrt": sfu.rsqrt, "sqrt": sfu.sqrt, "lg2": sfu.lg2, "ex2": sfu.ex2,
}  # fmt: skip
FUNCTIONS = "rcp rsqrt sqrt lg2 ex2 sin cos"


def approximate32(name: str, ftz: bool) -> Function:
    """One of FUNCTIONS, or tanh."""
    if name in ("sin", "cos"):
        return _angle(sfu.sine if name == "sin" else sfu.cosine, ftz)
    return (_FLUSHED if ftz else _PLAIN)[name]


def divide32(full: bool, ftz: bool) -> Function:
    """div.approx, and div.full, which scales operands whose reciprocal would be subnormal."""
    multiply, factors = arithmetic32("mul", "rn", ftz), _division(full, ftz)
    return lambda a, b: np.asarray(multiply(*factors(a, b)))


def divide_add32(full: bool, ftz: bool, sat: bool) -> Function:
    """The same, where ptxas contracts its last product with a sum: a/b + c, rounded once."""
    fused, factors = arithmetic32("fma", "rn", ftz, sat), _division(full, ftz)

    def compute(a: Array, b: Array, c: Array) -> Array:
        a, b, c = (np.atleast_1d(x) for x in np.broadcast_arrays(a, b, c))
        return np.asarray(fused(*factors(a, b), c))

    return compute


def _division(full: bool, ftz: bool) -> Callable[[Array, Array], tuple[Array, Array]]:
    """The two factors whose product is the quotient."""
    multiply = arithmetic32("mul", "rn", ftz)

    def compute(a: Array, b: Array) -> tuple[Array, Array]:
        a, b = (np.atleast_1d(x) for x in np.broadcast_arrays(a, b))
        scale = np.ones_like(b)
        if full:
            scale = np.where(np.abs(b) > _LARGE, np.float32(0.25), scale)
        if not ftz:
            scale = np.where(np.abs(b) < _SMALLEST, _UP, scale)
        else:
            a, b = flush32(a), flush32(b)
        return sfu.rcp(multiply(scale, b)), multiply(scale, a)

    return compute


def _from_upper(function: Callable[[Array], Array], halved: bool) -> Function:
    """An fp64 approximation that sees the upper word and gives the upper word."""

    def compute(x: Array) -> Array:
        bits = np.atleast_1d(x).view(np.uint64) & np.uint64(0xFFFFFFFF00000000)
        upper = bits.view(np.float64)
        exponent = ((bits >> np.uint64(52)) & np.uint64(0x7FF)).astype(np.int64) - 1023
        kept = exponent & 1 if halved else np.zeros_like(exponent)
        regular = (exponent > -1023) & (exponent < 1024)
        moved = np.where(regular, exponent - kept, 0)
        seen = np.where(regular, np.ldexp(upper, -moved), np.where(exponent == -1023, np.copysign(0.0, upper), upper))
        result = function(seen.astype(np.float32)).astype(np.float64)
        scaled = np.ldexp(result, -(moved // 2 if halved else moved))
        scaled = np.where(np.abs(scaled) < 2.0**-1022, np.copysign(0.0, scaled), scaled)
        cut = (scaled.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
        return np.where(scaled != scaled, _NAN, cut)

    return compute


reciprocal64 = _from_upper(sfu.rcp, halved=False)
_rsqrt_upper = _from_upper(sfu.rsqrt, halved=True)


def rsqrt64(ftz: bool) -> Function:
    """The upper word alone with .ftz; otherwise one more step of Newton's method."""
    if ftz:
        return _rsqrt_upper

    def compute(x: Array) -> Array:
        x = np.atleast_1d(x)
        tiny = np.abs(x) < 2.0**-1022
        scaled = np.where(tiny, x * 2.0**54, x)
        guess = _rsqrt_upper(scaled)
        error = exact64.fma(scaled, -(guess * guess), np.ones_like(x))
        factor = exact64.fma(error, np.full_like(x, 0.375), np.full_like(x, 0.5))
        refined = exact64.fma(factor, guess * error, guess)
        regular = np.isfinite(scaled) & (scaled > 0)
        return np.where(regular, np.where(tiny, refined * 2.0**27, refined), guess)

    return single64(compute)
