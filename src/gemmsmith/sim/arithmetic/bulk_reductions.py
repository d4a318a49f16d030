"""What cp.reduce.async.bulk does with the values in memory and the new ones, as an H200 does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from gemmsmith.sim.ptx.types import Array

OPERATIONS = "add min max inc dec and or xor"
TYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in {
        "u32": np.uint32, "s32": np.int32, "b32": np.uint32, "u64": np.uint64, "s64": np.int64, "b64": np.uint64,
        "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    }.items()
}  # fmt: skip
_BITS: dict[int, np.dtype[Any]] = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}

_WHOLE: dict[str, Callable[[Array, Array], Any]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, new: np.where(old >= new, 0, old + 1),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - 1),
}  # fmt: skip


def reduced(operation: str, old: Array, new: Array, flush: bool = False) -> Array:
    """The values that are written; ``flush``: subnormal addends and sums are zero."""
    kind = old.dtype
    if kind.kind in "iu":
        return np.asarray(_WHOLE[operation](old, new)).astype(kind)
    if operation not in ("add", "min", "max"):  # on the bits of floats
        bits = _BITS[kind.itemsize]
        found: Array = np.asarray(_WHOLE[operation](old.view(bits), new.view(bits))).astype(bits).view(kind)
        return found
    if operation != "add":
        return _chosen(operation, old, new)
    return _flushed(_added(_flushed(old), _flushed(new))) if flush else _added(old, new)


def _flushed(values: Array) -> Array:
    """Subnormal numbers as zeros of their sign."""
    small = np.abs(values) < np.finfo(values.dtype).tiny
    found: Array = np.where(small, np.copysign(values.dtype.type(0), values), values)
    return found


def _added(old: Array, new: Array) -> Array:
    """NaN has all bits of the mantissa set; of float64 it is the addend that is one, signalling or not."""
    found = np.asarray(old + new).astype(old.dtype)
    if old.dtype.itemsize < 8:
        _set_nan(found, np.isnan(found))
        return found
    bits, was = found.view(_BITS[8]), [np.isnan(x) for x in (old, new)]
    kept = np.where(was[0], old.view(_BITS[8]), np.where(was[1], new.view(_BITS[8]), bits))
    return np.asarray(kept).view(old.dtype)


def _chosen(operation: str, old: Array, new: Array) -> Array:
    """The smaller or larger one. A number wins over NaN, and -0 is smaller than 0."""
    bits = _BITS[old.dtype.itemsize]
    first_nan, second_nan = np.isnan(old), np.isnan(new)
    low = (old < new) | ((old == new) & (np.signbit(old) > np.signbit(new)))
    take_old = (low if operation == "min" else ~low) & ~first_nan | second_nan
    found = np.where(take_old, old.view(bits), new.view(bits)).astype(bits).view(old.dtype)
    _set_nan(found, first_nan & second_nan)
    return found


def _set_nan(values: Array, where: Array) -> None:
    size = values.dtype.itemsize
    values.view(_BITS[size])[where] = (1 << 8 * size - 1) - 1
