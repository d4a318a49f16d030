"""The element types of tensor maps, with the numbers that the driver and ``tensormap.replace`` have for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.problem import BF16, FP16, FP32, FP64, INT8, INT32, TF32, UINT8, DType

UINT16 = DType("uint16", np.dtype(np.uint16), "unsigned short", 0.0)
UINT32 = DType("uint32", np.dtype(np.uint32), "unsigned", 0.0)
UINT64 = DType("uint64", np.dtype(np.uint64), "unsigned long long", 0.0)
INT16 = DType("int16", np.dtype(np.int16), "short", 0.0)
INT64 = DType("int64", np.dtype(np.int64), "long long", 0.0)
# Of fp32 in memory; TMA flushes subnormals of these types to zero.
FP32_FTZ = DType("fp32_ftz", FP32.numpy, "float", FP32.unit_roundoff)
TF32_FTZ = DType("tf32_ftz", TF32.numpy, "float", TF32.unit_roundoff)


@dataclass(frozen=True)
class MapType:
    """``driver``: of CUtensorMapDataType in cuda.h. ``ptx``: of the field .elemtype of tensormap.replace."""

    dtype: DType
    driver: int
    ptx: int


MAP_TYPES = tuple(
    MapType(*entry)
    for entry in (
        (UINT8, 0, 0), (UINT16, 1, 1), (UINT32, 2, 2), (INT32, 3, 3), (UINT64, 4, 4), (INT64, 5, 5), (FP16, 6, 6),
        (FP32, 7, 7), (FP64, 8, 9), (BF16, 9, 10), (FP32_FTZ, 10, 8), (TF32, 11, 11), (TF32_FTZ, 12, 12),
        # The hardware does not tell these from the unsigned types.
        (INT8, 0, 0), (INT16, 1, 1),
    )
)  # fmt: skip
_BY_NAME = {each.dtype.name: each for each in MAP_TYPES}
FLOATS = ("fp16", "fp32", "fp64", "bf16", "fp32_ftz", "tf32", "tf32_ftz")


def map_type(dtype: DType) -> MapType:
    return _BY_NAME[dtype.name]


def map_type_number(dtype: DType) -> int:
    """Its position in ``MAP_TYPES``, which the simulator's maps hold."""
    return MAP_TYPES.index(_BY_NAME[dtype.name])
