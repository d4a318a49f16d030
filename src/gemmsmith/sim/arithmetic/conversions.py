"""Conversions between integer and floating-point types, with the rounding PTX names.

A number is first held exactly: as a float64, or for 64-bit integers as a sum of two. It is then rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from gemmsmith.sim.arithmetic.directed import flush32, is_tiny, saturate
from gemmsmith.sim.arithmetic.exact64 import neighbour, sum_error
from gemmsmith.sim.arithmetic.rounding import (
    CANONICAL_NAN_16,
    CANONICAL_NAN_32,
    TF32_MASK,
    canonical32,
    quiet64,
    to_bfloat,
    to_half,
)
from gemmsmith.sim.arithmetic.rounding import to_tf32 as round_to_tf32
from gemmsmith.sim.ptx.types import DTYPES, Array

Function = Callable[..., Any]
ROUNDINGS = "rn rz rm rp"
TO_INTEGER: dict[str, Function] = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}
_FP8 = {"e4m3x2": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2x2": np.dtype(ml_dtypes.float8_e5m2)}
_LARGEST_FP8 = {"e4m3x2": 448.0, "e5m2x2": 57344.0}


def integer_to_integer(to: np.dtype[Any]) -> Function:
    """Wraps, or extends by the sign of the source."""
    return lambda a: np.asarray(a).astype(to)


def saturating(to: np.dtype[Any], source: np.dtype[Any]) -> Function:
    """cvt.sat between integers: values that do not fit become the nearest that does."""
    limits, held = np.iinfo(to), np.iinfo(source)
    low, high = max(limits.min, held.min), min(limits.max, held.max)
    return lambda a: np.clip(a, source.type(low), source.type(high)).astype(to)


def float_to_integer(mode: str, to: str, source: str, ftz: bool = False) -> Function:
    """Rounds as named and saturates; NaN gives zero, or only the top bit where a type has 64 bits."""
    round_to_integer, kind = TO_INTEGER[mode], DTYPES[to]
    limits = np.iinfo(kind)
    top = kind.itemsize == 8 or source == "f64"
    nan = kind.type((limits.min if kind.kind == "i" else limits.max // 2 + 1) if top else 0)

    def convert(a: Array) -> Array:
        a = flush32(np.asarray(a)) if ftz else np.asarray(a)
        rounded = round_to_integer(a.astype(np.float64))
        above, below = rounded >= float(limits.max), rounded <= float(limits.min)
        inside = np.where(above | below | np.isnan(rounded), 0.0, rounded).astype(kind)
        result = np.where(above, kind.type(limits.max), np.where(below, kind.type(limits.min), inside))
        return np.where(np.isnan(rounded), nan, result).astype(kind)

    return convert


def integer_to_float(to: str, mode: str = "rn", sat: bool = False) -> Function:
    """An integer rounded to a floating-point type."""
    if mode == "rn" and to in ("f32", "f64") and not sat:
        return lambda a: np.asarray(a).astype(DTYPES[to])

    def convert(a: Array) -> Array:
        wide = np.atleast_1d(a)
        upper = (wide >> wide.dtype.type(wide.dtype.itemsize * 4)).astype(np.float64) * 2.0 ** (wide.dtype.itemsize * 4)
        lower = (wide & wide.dtype.type((1 << (wide.dtype.itemsize * 4)) - 1)).astype(np.float64)
        total = upper + lower
        error = sum_error(upper, lower, total)
        if to == "f64":
            result = neighbour(total, error, mode)
        else:
            odd = (error != 0) & ((total.view(np.uint64) & np.uint64(1)) == 0)
            sticky = np.where(odd, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)
            result = narrowed(sticky, to, mode)
        return saturate(result) if sat else result

    return convert


def narrowed(x: Array, to: str, mode: str) -> Array:
    """float64 values rounded once to fp16, bf16, fp32 or fp64; NaN becomes canonical (fp64 keeps it)."""
    if to == "f64":
        return quiet64(x)
    nearest = x.astype(np.float32) if to == "f32" else to_half(x) if to == "f16" else to_bfloat(x)
    if mode == "rn":
        return nearest
    width = np.dtype(f"u{nearest.dtype.itemsize}")
    bits = np.ascontiguousarray(nearest).view(width)
    with np.errstate(invalid="ignore"):
        above = np.sign(x - nearest.astype(np.float64))
    negative, zero = np.signbit(nearest), nearest == 0
    if mode == "rz":
        step = np.where(negative, above > 0, above < 0)
        moved = np.where(step & ~zero, bits - width.type(1), bits)
        return moved.astype(width).view(nearest.dtype)
    wanted = above < 0 if mode == "rm" else above > 0
    outwards = negative if mode == "rm" else ~negative
    sign = width.type(1 << (8 * width.itemsize - 1))
    least = width.type(1) | (sign if mode == "rm" else width.type(0))
    moved = np.where(outwards, bits + width.type(1), bits - width.type(1))
    moved = np.where(zero, least, moved)
    return np.where(wanted, moved, bits).astype(width).view(nearest.dtype)


def from_bfloat(a: Array) -> Array:
    """bf16 to fp32: the upper half of an fp32 number, NaN payloads included."""
    return (np.asarray(a).view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def double_to_single(a: Array) -> Array:
    """fp64 to fp32; keeps the upper bits of a NaN's payload."""
    return np.asarray(a).astype(np.float32)


def _canonical(x: Array) -> Array:
    if x.dtype == np.float32:
        return canonical32(x)
    if x.dtype == np.float64:
        return quiet64(x)
    nan = x != x
    if np.any(nan):
        x = np.array(x)
        x.view(np.uint16)[nan] = CANONICAL_NAN_16
    return x


def _with_payload(x: Array, source: Array, to: str) -> Array:
    """fp16 and bf16 numbers from fp64: a NaN keeps its sign and the upper bits of its payload, and is quiet."""
    nan = source != source
    if np.any(nan):
        bits, fraction = source.view(np.uint64), 10 if to == "f16" else 7
        kept = (bits >> np.uint64(52 - fraction)) & np.uint64((1 << fraction) - 1)
        quiet = np.uint64(0x7FFF & ~((1 << (fraction - 1)) - 1))
        x = np.array(x)
        x.view(np.uint16)[nan] = ((bits >> np.uint64(48)) & np.uint64(0x8000) | quiet | kept).astype(np.uint16)[nan]
    return x


def float_to_float(to: str, source: str, mode: str, ftz: bool, sat: bool, relu: bool = False) -> Function:
    """cvt between floating-point types; a mode such as rni rounds to an integral value of the type."""

    def convert(a: Array) -> Array:
        a = np.atleast_1d(a)
        if ftz and source == "f32":
            a = flush32(a)
        if mode in TO_INTEGER:
            result = _canonical(TO_INTEGER[mode](a.astype(np.float64)).astype(DTYPES[to]))
        elif (to, source) == ("f32", "bf16"):
            result = from_bfloat(a)
        elif (to, source) == ("f32", "f64"):
            result = narrowed(a, "f32", mode)
        elif to == "f64":
            result = quiet64((canonical32(a) if ftz else a).astype(np.float64))
        elif source == "f64":
            result = _with_payload(narrowed(a, to, mode), a, to)
        else:
            result = _canonical(narrowed(a.astype(np.float64), to, mode))
        if ftz and to == "f32":
            result = np.where(is_tiny(a.astype(np.float64), result, mode), np.copysign(np.float32(0), result), result)
        if relu:
            result = np.where(result <= 0, np.asarray(0, result.dtype), result)
        return saturate(result) if sat else result

    return convert


def pair(narrow: Function) -> Function:
    """Two fp32 numbers to two 16-bit ones in a word; the first is the upper half."""

    def convert(high: Array, low: Array) -> Array:
        upper, lower = (np.asarray(narrow(np.asarray(x))).view(np.uint16) for x in (high, low))
        return (upper.astype(np.uint32) << np.uint32(16)) | lower

    return convert


def to_tf32(x: Array, mode: str, relu: bool) -> Array:
    """fp32 to TF32 by cutting off (rz), or as ``rounding.to_tf32`` does; .relu makes negative results zero."""
    if mode == "rz":
        bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
        result = np.where(x != x, CANONICAL_NAN_32, bits) & TF32_MASK
    else:
        result = round_to_tf32(x, away=mode == "rna")
    if relu:
        number = result.view(np.float32)
        result = np.where(number <= 0, np.uint32(0), result)
    return np.asarray(result)


def _to_fp8(x: Array, kind: str, relu: bool) -> Array:
    """fp32 values to fp8, rounded to nearest even; what is too large becomes the largest, NaN 0x7F."""
    wide = np.atleast_1d(x).astype(np.float32)
    if relu:
        wide = np.where(wide <= 0, np.float32(0), wide)
    largest = np.float32(_LARGEST_FP8[kind])
    bits = np.clip(wide, -largest, largest).astype(_FP8[kind]).view(np.uint8)
    return np.where(wide != wide, np.uint8(0x7F), bits).astype(np.uint16)


def to_fp8_pair(kind: str, relu: bool) -> Function:
    """Two fp32 numbers to two fp8 ones; the first is the upper."""
    return lambda high, low: (_to_fp8(high, kind, relu) << np.uint16(8)) | _to_fp8(low, kind, relu)


def halves_to_fp8(kind: str, relu: bool) -> Function:
    """Two fp16 numbers in a word to two fp8 ones."""

    def convert(word: Array) -> Array:
        low, high = (
            (np.atleast_1d(word) >> np.uint32(s)).astype(np.uint16).view(np.float16).astype(np.float32) for s in (0, 16)
        )
        return (_to_fp8(high, kind, relu) << np.uint16(8)) | _to_fp8(low, kind, relu)

    return convert


def fp8_to_halves(kind: str, relu: bool) -> Function:
    """Two fp8 numbers to two fp16 ones in a word; exact."""

    def convert(both: Array) -> Array:
        word = np.zeros(np.shape(np.atleast_1d(both)), np.uint32)
        for shift in (0, 8):
            part = (np.atleast_1d(both) >> np.uint16(shift)).astype(np.uint8).view(_FP8[kind])
            half = _canonical(part.astype(np.float16))
            if relu:
                half = np.where(half <= 0, np.float16(0), half)
            word |= half.view(np.uint16).astype(np.uint32) << np.uint32(2 * shift)
        return word

    return convert


def pack_saturated(to: str) -> Function:
    """cvt.pack: two integers saturated and put in front of what fits of a third."""
    kind = DTYPES[to]
    limits, width = np.iinfo(kind), kind.itemsize

    def convert(a: Array, b: Array, rest: Array | None = None) -> Array:
        raw = np.dtype(f"u{width}")
        upper, lower = (
            np.clip(x, limits.min, limits.max).astype(kind).view(raw).astype(np.uint32)
            for x in (np.atleast_1d(a), np.atleast_1d(b))
        )
        word: Array = (upper << np.uint32(8 * width)) | lower
        return word if rest is None else word | (np.asarray(rest) << np.uint32(16 * width))

    return convert
