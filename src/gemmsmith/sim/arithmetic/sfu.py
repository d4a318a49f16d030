"""The special function unit: what MUFU computes on an H200, bit for bit.

The unit interpolates. The upper bits of the operand choose an interval with three integer coefficients, the other 16
or 17 bits are t, and the result is c0 + c1·t + c2·t², cut off to 24 bits. The squarer leaves out the partial products
of its lowest columns. Coefficients and widths were derived from all 2²³ operands of an octave, recorded on an H200
(driver 580.159, 2026-11-16); the model gives every recorded bit. sfu_coefficients.csv has them, in units of 2⁻¹⁸ of the
last place (2⁻¹⁷ for rcp).

Operands and results are fp32. Subnormal operands count as zero, and subnormal results become zero.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

import numpy as np

from gemmsmith.sim.arithmetic.rounding import CANONICAL_NAN_32
from gemmsmith.sim.ptx.types import Array

_MANTISSA = np.int64(0x7FFFFF)
_T_BITS = 17  # of t, with 64 intervals; rcp has 128 intervals and 16 bits
_LOWEST_COLUMN = {16: 17, 17: 19}  # columns of the squarer below this one are left out
_TANH_OCTAVES = range(-8, 3)


@cache
def _tables() -> dict[str, Array]:
    """Coefficients by table: one row (c0, c1, c2) an interval."""
    rows: dict[str, list[tuple[int, int, int]]] = {}
    text = (files("gemmsmith.sim.arithmetic") / "sfu_coefficients.csv").read_text()
    for row in csv.DictReader(text.splitlines()):
        rows.setdefault(row["table"], []).append((int(row["c0"]), int(row["c1"]), int(row["c2"])))
    return {name: np.array(found, np.int64) for name, found in rows.items()}


@cache
def _squares(bits: int) -> Array:
    """The squarer's result for every t, in units of 2^bits."""
    t = np.arange(1 << bits, dtype=np.int64)
    digits = [(t >> i) & 1 for i in range(bits)]
    total = np.zeros_like(t)
    for i in range(bits):
        if 2 * i >= _LOWEST_COLUMN[bits]:
            total += digits[i] << (2 * i)
        for j in range(max(0, _LOWEST_COLUMN[bits] - 1 - i), i):
            total += (digits[i] & digits[j]) << (i + j + 1)
    return total >> bits


def _interpolate(table: str, position: Array, bits: int = _T_BITS) -> Array:
    """The unit's sum for an operand: interval and t, side by side."""
    c = _tables()[table]
    interval, t = position >> bits, position & ((1 << bits) - 1)
    total: Array = c[interval, 0] + c[interval, 1] * t + c[interval, 2] * _squares(bits)[t]
    return total


def _fields(x: Array) -> tuple[Array, Array, Array]:
    """Sign, unbiased exponent and fraction."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.int64)
    return bits >> 31, ((bits >> 23) & 255) - 127, bits & _MANTISSA


def _flushed(x: Array) -> Array:
    """Values with subnormal numbers replaced by zeros of their sign."""
    result = np.array(x, np.float32)
    small = np.abs(result) < np.float32(2.0**-126)
    result[small] = np.copysign(np.float32(0), result[small])
    return result


def _scaled(significand: Array, exponent: Array) -> Array:
    """significand · 2^exponent, with subnormal results flushed."""
    with np.errstate(over="ignore", under="ignore"):
        return _flushed(np.ldexp(significand.astype(np.float64), exponent.astype(np.int64)).astype(np.float32))


def _truncated(total: Array, scale: int) -> Array:
    """An integer times 2^−scale as fp32, with the bits that fp32 does not have cut off."""
    size = np.abs(total)
    spare = np.maximum(np.frexp(size.astype(np.float64))[1].astype(np.int64) - 24, 0)
    cut = (size >> spare) << spare
    return (np.sign(total) * np.ldexp(cut.astype(np.float64), -scale)).astype(np.float32)


def _with_nan(result: Array, where: Array) -> Array:
    result = np.array(result, np.float32)
    result.view(np.uint32)[where] = CANONICAL_NAN_32
    return result


def rcp(x: Array) -> Array:
    """1/x"""
    x = np.atleast_1d(_flushed(x))
    sign, exponent, fraction = _fields(x)
    significand = _interpolate("rcp", fraction, 16) >> 17
    result = _scaled(significand * np.where(sign == 1, -1, 1), -24 - exponent)
    result = np.where(x == 0, np.copysign(np.float32(np.inf), x), result)
    result = np.where(np.isinf(x), np.copysign(np.float32(0), x), result)
    return _with_nan(result, x != x)


def rsqrt(x: Array) -> Array:
    """1/√x"""
    x = np.atleast_1d(_flushed(x))
    _, exponent, fraction = _fields(x)
    odd = exponent & 1
    total = np.where(odd == 1, _interpolate("rsqrt_odd", fraction), _interpolate("rsqrt_even", fraction))
    significand = np.where((fraction == 0) & (odd == 0), 1 << 24, total >> 18)
    result = _scaled(significand, -24 - (exponent - odd) // 2)
    result = np.where(x == 0, np.copysign(np.float32(np.inf), x), result)
    result = np.where(x == np.inf, np.float32(0), result)
    return _with_nan(result, ~(x >= 0))


def sqrt(x: Array) -> Array:
    """√x"""
    x = np.atleast_1d(_flushed(x))
    _, exponent, fraction = _fields(x)
    odd = exponent & 1
    total = np.where(odd == 1, _interpolate("sqrt_odd", fraction), _interpolate("sqrt_even", fraction))
    result = _scaled(total >> 18, -23 + (exponent - odd) // 2)
    result = np.where((x == 0) | (x == np.inf), x, result)
    return _with_nan(result, ~(x >= 0))


def ex2(x: Array) -> Array:
    """2^x"""
    x = np.atleast_1d(_flushed(x))
    wide = np.clip(np.where(x == x, x, 0).astype(np.float64), -256.0, 256.0)
    size = np.trunc(np.abs(wide) * 2.0**23).astype(np.int64)
    negative = np.where(size & _MANTISSA, ~size, -size)  # one below, but for whole numbers
    fixed = np.where(wide < 0, negative, size)
    significand = _interpolate("ex2", fixed & _MANTISSA) >> 18
    return _with_nan(_scaled(significand, (fixed >> 23) - 23), x != x)


def lg2(x: Array) -> Array:
    """log₂ x"""
    x = np.atleast_1d(_flushed(x))
    _, exponent, fraction = _fields(x)
    total = (exponent << 36) + (_interpolate("lg2", fraction) >> 5)
    size = _truncated(np.where(total < 0, ~total, total), 36)
    result = np.where(x == 1, np.float32(0), np.where(total < 0, -size, size))
    result = np.where(x == 0, np.float32(-np.inf), result)
    result = np.where(x == np.inf, x, result)
    return _with_nan(result, ~(x >= 0))


def sine(turns: Array, quarter: int = 0) -> Array:
    """The sine of an angle in turns, ``quarter`` quarters further on."""
    x = np.atleast_1d(_flushed(turns))
    wide = np.where(np.isfinite(x), x, 0).astype(np.float64)
    fixed = np.floor(np.fmod(np.abs(wide), 1.0) * 2.0**25).astype(np.int64)
    negative = (np.signbit(x)) & (quarter == 0)
    quadrant, position = ((fixed >> 23) + quarter) & 3, fixed & _MANTISSA
    position = np.where(quadrant & 1, _MANTISSA - position, position)
    size = _truncated(_interpolate("sin", position), 42)
    result = np.where((quadrant >= 2) != negative, -size, size).astype(np.float32)
    return _with_nan(result, ~np.isfinite(x))


def cosine(turns: Array) -> Array:
    """The cosine of an angle in turns."""
    return sine(turns, 1)


def tanh(x: Array) -> Array:
    """The hyperbolic tangent: small operands are their own result, large ones give one."""
    x = np.atleast_1d(np.asarray(x, np.float32))
    _, exponent, fraction = _fields(x)
    size = np.abs(x)
    result = np.where(exponent > _TANH_OCTAVES[-1], np.float32(1), size)
    for octave in _TANH_OCTAVES:
        here = exponent == octave
        if here.any():
            intervals = len(_tables()[f"tanh_{octave}"])
            position = fraction[here] >> (23 - 17 - (intervals.bit_length() - 1))
            total = _interpolate(f"tanh_{octave}", position)
            result[here] = _truncated(total, 42 if octave >= 0 else 41 - octave)
    return _with_nan(np.copysign(result, x), x != x)
