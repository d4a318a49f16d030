"""Long lists of numbers in little space: little-endian integers in base64, which ``GS.unpack`` reads."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TYPES = (np.int8, np.int16, np.int32)


def packed(values: Iterable[int] | NDArray[Any]) -> dict[str, str]:
    """The numbers in the smallest type that holds them: {"i16": "…"}."""
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values), np.int64).reshape(-1)
    for kind in _TYPES:
        limits = np.iinfo(kind)
        if not array.size or (limits.min <= array.min() and array.max() <= limits.max):
            data = array.astype(np.dtype(kind).newbyteorder("<")).tobytes()
            return {f"i{8 * np.dtype(kind).itemsize}": base64.b64encode(data).decode()}
    return {"f64": base64.b64encode(array.astype("<f8").tobytes()).decode()}


def ranges(values: Iterable[int]) -> list[list[int]]:
    """Ascending numbers as runs of neighbours: first and last."""
    found: list[list[int]] = []
    for value in values:
        if found and value == found[-1][1] + 1:
            found[-1][1] = value
        else:
            found.append([value, value])
    return found
