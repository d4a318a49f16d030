"""Conversions between integer and floating-point types, with the rounding PTX names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemmsmith.sim.types import Array

Function = Callable[..., Any]
TO_INTEGER: dict[str, Function] = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}


def integer_to_integer(to: np.dtype[Any]) -> Function:
    """Wraps, or extends by the sign of the source."""
    return lambda a: np.asarray(a).astype(to)


def saturating(to: np.dtype[Any], source: np.dtype[Any]) -> Function:
    """cvt.sat between integers: values that do not fit become the nearest that does."""
    limits, held = np.iinfo(to), np.iinfo(source)
    low, high = max(limits.min, held.min), min(limits.max, held.max)
    return lambda a: np.clip(a, source.type(low), source.type(high)).astype(to)


def float_to_integer(mode: str, to: np.dtype[Any], source: np.dtype[Any]) -> Function:
    """Rounds as named and saturates; NaN gives zero, or only the top bit where either type has 64 bits."""
    round_to_integer, limits = TO_INTEGER[mode], np.iinfo(to)
    narrow = to.itemsize == 4 and source == np.dtype(np.float32)
    nan = to.type(0 if narrow else limits.min if to.kind == "i" else limits.max // 2 + 1)

    def convert(a: Array) -> Array:
        rounded = round_to_integer(np.asarray(a, dtype=np.float64))
        above, below = rounded >= float(limits.max), rounded <= float(limits.min)
        inside = np.where(above | below | np.isnan(rounded), 0.0, rounded).astype(to)
        result = np.where(above, to.type(limits.max), np.where(below, to.type(limits.min), inside))
        return np.where(np.isnan(rounded), nan, result).astype(to)

    return convert


def integer_to_float(to: np.dtype[Any]) -> Function:
    """Rounded to nearest even."""
    return lambda a: np.asarray(a).astype(to)


def from_bfloat(a: Array) -> Array:
    """bf16 to fp32: the upper half of an fp32 number, NaN payloads included."""
    return (np.asarray(a).view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def double_to_single(a: Array) -> Array:
    """fp64 to fp32; keeps the upper bits of a NaN's payload."""
    return np.asarray(a).astype(np.float32)


def pair(narrow: Callable[[Array], Array]) -> Function:
    """Two fp32 numbers to two 16-bit ones in a word; the first is the upper half."""

    def convert(high: Array, low: Array) -> Array:
        upper, lower = (narrow(np.asarray(x)).view(np.uint16) for x in (high, low))
        return (upper.astype(np.uint32) << np.uint32(16)) | lower

    return convert
