"""PTX types: their size, and the NumPy type that holds a value of each."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "pred": np.dtype(bool),
    "b8": np.dtype(np.uint8), "u8": np.dtype(np.uint8), "s8": np.dtype(np.int8),
    "b16": np.dtype(np.uint16), "u16": np.dtype(np.uint16), "s16": np.dtype(np.int16),
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "b32": np.dtype(np.uint32), "u32": np.dtype(np.uint32), "s32": np.dtype(np.int32), "f32": np.dtype(np.float32),
    "f16x2": np.dtype(np.uint32), "bf16x2": np.dtype(np.uint32),
    "b64": np.dtype(np.uint64), "u64": np.dtype(np.uint64), "s64": np.dtype(np.int64), "f64": np.dtype(np.float64),
}  # fmt: skip

TYPE_BYTES: dict[str, int] = {**{name: dtype.itemsize for name, dtype in DTYPES.items()}, "b128": 16}

# Sets of types, as the patterns of instructions name them.
UNSIGNED = "u16 u32 u64"
SIGNED = "s16 s32 s64"
INTEGERS = f"{UNSIGNED} {SIGNED}"
BITS = "b16 b32 b64"
