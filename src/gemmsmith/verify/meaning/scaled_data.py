"""The values that a product with scales is given: elements, scales, and what its output holds before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_LARGE = 1000  # of integers of more than a byte, which may be packed numbers
_LONG, _SHORT = 31, 15  # bits of integer multipliers with a fraction of as many bits


def elements(rng: np.random.Generator, size: int, kind: np.dtype[Any], most: int) -> Array:
    """Small integers; or, up to ``most``, values of the type's range: real numbers are then normally distributed."""
    if kind.kind in "iu":
        low, high = (0, 4) if kind.kind == "u" else (-2, 3)
        if most:
            most = most if kind.itemsize == 1 else _LARGE
            low, high = (0, 2 * most + 2) if kind.kind == "u" else (-most - 1, most + 1)
        return rng.integers(low, high, size).astype(kind)
    values = rng.standard_normal(size) if most else rng.integers(-2, 3, size)
    return values.astype(np.float32).astype(kind)


def scales(rng: np.random.Generator, count: int, wide: bool) -> Array:
    return rng.uniform(0.004, 0.012, count) if wide else 2.0 ** rng.integers(-1, 2, count)


def fixed_scales(rng: np.random.Generator, count: int, fraction: int, wide: bool) -> Array:
    """Integer multipliers between 1/4 and 1 of their point's place; powers of two unless ``wide``."""
    bits = _LONG if fraction >= _LONG - 1 else _SHORT
    if wide:
        return rng.integers(2 ** (bits - 1), 2**bits, count)
    return 2 ** (bits - rng.integers(1, 3, count))


def shifts(rng: np.random.Generator, count: int, fraction: int, wide: bool) -> Array:
    """Shifts beside the bits of the multiplier: results are small; of the whole range they must be made smaller."""
    least = 0 if fraction else _SHORT
    return rng.integers(least + 9, least + 11, count) if wide else rng.integers(least + 1, least + 3, count)


def unwritten(size: int, kind: np.dtype[Any]) -> Array:
    """What the output holds before: NaN, or a number that no result is."""
    if kind.kind in "iu":
        return np.full(size, 0x5A if kind.itemsize == 1 else 0x5A5A, kind)
    return np.full(size, np.nan, np.float32).astype(kind)


def converted(values: Array, kind: np.dtype[Any]) -> Array:
    if kind.kind in "iu" and kind.itemsize == 1:
        limits = np.iinfo(kind)
        return np.clip(values, limits.min, limits.max).astype(kind)
    return values.astype(np.int64).astype(kind) if kind.kind in "iu" else values.astype(np.float32).astype(kind)


def number_of(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() else value
