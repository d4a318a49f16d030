"""cvt: conversions between integer and floating-point types, with the rounding PTX names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from gemmsmith.sim import rounding

Array = NDArray[Any]
Function = Callable[..., Any]

_INTEGER: dict[str, np.dtype[Any]] = {
    f"{sign}{bits}": np.dtype(f"{'u' if sign == 'u' else 'i'}{bits // 8}") for sign in "us" for bits in (8, 16, 32, 64)
}
_FLOAT = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def conversion(modes: frozenset[str], to: str, source: str) -> Function | None:
    """The function for cvt[.MODES].TO.SOURCE, or None if it is not known."""
    if to in _INTEGER and source in _INTEGER:
        return _integer_to_integer(modes, _INTEGER[to], _INTEGER[source])
    if to in _INTEGER and source in ("f32", "f64"):
        return _float_to_integer(modes, _INTEGER[to], source)
    if to in _FLOAT and source in _INTEGER and modes == {"rn"}:
        return _integer_to_float(to)
    if to in _FLOAT and source in _FLOAT:
        return _float_to_float(modes, to, source)
    if to == "tf32" and source == "f32" and modes in ({"rna"}, {"rn"}):
        return lambda a: rounding.to_tf32(np.asarray(a), away=modes == {"rna"})
    if to in ("f16x2", "bf16x2") and source == "f32" and modes == {"rn"}:
        narrow = rounding.to_half if to == "f16x2" else rounding.to_bfloat
        return lambda high, low: _pack(narrow(np.asarray(high)), narrow(np.asarray(low)))
    return None


def _pack(high: Array, low: Array) -> Array:
    return (high.view(np.uint16).astype(np.uint32) << np.uint32(16)) | low.view(np.uint16)


def _integer_to_integer(modes: frozenset[str], to: np.dtype[Any], source: np.dtype[Any]) -> Function | None:
    if not modes:
        return lambda a: np.asarray(a).astype(to)
    if modes == {"sat"}:
        limits, held = np.iinfo(to), np.iinfo(source)
        low, high = max(limits.min, held.min), min(limits.max, held.max)
        return lambda a: np.clip(a, source.type(low), source.type(high)).astype(to)
    return None


_ROUND: dict[str, Function] = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}


def _float_to_integer(modes: frozenset[str], to: np.dtype[Any], source: str) -> Function | None:
    """Rounds as named and saturates; NaN gives zero, or only the top bit where either type has 64 bits."""
    (mode,) = modes if len(modes) == 1 else ("",)
    rounding_function = _ROUND.get(mode)
    if rounding_function is None or to.itemsize < 4:
        return None
    limits = np.iinfo(to)

    def convert(a: Array) -> Array:
        rounded = rounding_function(np.asarray(a, dtype=np.float64))
        above, below = rounded >= float(limits.max), rounded <= float(limits.min)
        inside = np.where(above | below | np.isnan(rounded), 0.0, rounded).astype(to)
        narrow = to.itemsize == 4 and source == "f32"
        nan = to.type(0 if narrow else limits.min if to.kind == "i" else limits.max // 2 + 1)
        result = np.where(above, to.type(limits.max), np.where(below, to.type(limits.min), inside))
        return np.where(np.isnan(rounded), nan, result).astype(to)

    return convert


def _integer_to_float(to: str) -> Function | None:
    if to == "f32":
        return lambda a: np.asarray(a).astype(np.float32)
    if to == "f64":
        return lambda a: np.asarray(a).astype(np.float64)
    return None


def _float_to_float(modes: frozenset[str], to: str, source: str) -> Function | None:
    widening = {("f32", "f16"), ("f32", "bf16"), ("f64", "f32"), ("f64", "f16")}
    if (to, source) in widening and not modes:
        if source == "bf16":  # the upper half of an fp32 number, NaN payloads included
            return lambda a: (np.asarray(a).view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
        if to == "f32":
            return lambda a: rounding.canonical32(np.asarray(a).astype(np.float32))
        return lambda a: rounding.quiet64(np.asarray(a).astype(np.float64))
    if modes == {"rn"} and (to, source) == ("f16", "f32"):
        return lambda a: rounding.to_half(np.asarray(a))
    if modes == {"rn"} and (to, source) == ("bf16", "f32"):
        return lambda a: rounding.to_bfloat(np.asarray(a))
    if modes == {"rn"} and (to, source) == ("f32", "f64"):
        return lambda a: np.asarray(a).astype(np.float32)  # keeps the upper bits of a NaN's payload
    return None
