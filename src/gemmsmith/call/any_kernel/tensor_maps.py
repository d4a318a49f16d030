"""Tensor maps as arguments of a launch: ``gemmsmith.tensor_map``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from gemmsmith.call.any_kernel.arrays import HostArray, host_array, is_array
from gemmsmith.errors import DTypeError, UsageError
from gemmsmith.kernel.geometry import Im2col, TensorMap
from gemmsmith.problem import BF16, FP16, FP32, FP64, INT8, INT32, TF32, UINT8, DType
from gemmsmith.run.map_types import FP32_FTZ, INT16, INT64, TF32_FTZ, UINT16, UINT32, UINT64
from gemmsmith.run.tensor_map import check_tensor_map

FILLS = ("zeros", "nan")
_SWIZZLES = {None: 0, "none": 0, "32B": 32, "64B": 64, "128B": 128}
_BY_NUMPY: dict[np.dtype[Any], DType] = {
    **{each.numpy: each for each in (UINT8, INT8, UINT16, INT16, UINT32, INT32, UINT64, INT64, FP16, FP32, FP64, BF16)},
    np.dtype(np.bool_): UINT8, np.dtype(ml_dtypes.float8_e4m3fn): UINT8, np.dtype(ml_dtypes.float8_e5m2): UINT8,
}  # fmt: skip
_NAMED = {
    "u8": UINT8, "u16": UINT16, "u32": UINT32, "s32": INT32, "i32": INT32, "u64": UINT64, "s64": INT64, "i64": INT64,
    "f16": FP16, "f32": FP32, "f64": FP64, "bf16": BF16, "tf32": TF32, "f32_ftz": FP32_FTZ, "tf32_ftz": TF32_FTZ,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TensorMapOf:
    """An array that a kernel copies by TMA, and its map (innermost dimension first); ``map.operand`` is its name."""

    array: Any
    map: TensorMap

    def named(self, name: str) -> TensorMap:
        return replace(self.map, operand=name)


def tensor_map(
    array: Any,
    *,
    box: Sequence[int] = (),
    swizzle: int | str | None = 0,
    interleave: int = 0,
    fill: str = "zeros",
    element_strides: Sequence[int] = (),
    im2col: Sequence[Any] | None = None,
    dtype: str = "",
    shape: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> TensorMapOf:
    """An array for a ``CUtensorMap`` parameter of ``gemmsmith.launch``, by value or by pointer.

    All lists have the array's axes in the array's order: the last is the contiguous one, which the driver and the
    coordinates of a copy have first.

    box              elements that one copy spans along each axis
    swizzle          0, 32, 64 or 128 bytes
    interleave       0, 16 or 32 bytes
    fill             'zeros' or 'nan': what elements outside the array are
    element_strides  along each axis every such element is copied; 1 to 8
    im2col           (lower corner, upper corner, channels, pixels) instead of a box: the corners have (D, H, W)
    dtype            'tf32', 'f32_ftz', 'tf32_ftz' or another type of the same size, if not the array's own
    shape, strides   the tensor in the array's memory, in elements, if it is not the array's own shape
    """
    if not is_array(array):
        raise DTypeError(f"gemmsmith.tensor_map takes an array, and a {type(array).__name__} was given")
    host = host_array("the array", array)
    kind = _dtype(host, dtype)
    extents, steps = _layout(host, _whole("shape", shape), _whole("strides", strides))
    _one_of("fill", fill, FILLS)
    if (not box) == (im2col is None):
        raise UsageError("a tensor map needs a box", f"give box=(…) with {len(extents)} numbers, one for each axis")
    how = None if im2col is None else _im2col(im2col)
    sides = _reversed("box", box, len(extents)) if how is None else (how.channels, how.pixels)
    every = _reversed("element_strides", element_strides, len(extents)) if element_strides else ()
    described = TensorMap("the array", kind, tuple(reversed(extents)), tuple(reversed(steps[:-1])), sides,
                          _swizzle(swizzle), int(interleave), fill == "nan", every, how)  # fmt: skip
    check_tensor_map(described, 0)
    return TensorMapOf(array, described)


def _one_of(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise UsageError(f"{what}={given!r} is not known", f"use one of {', '.join(map(repr, known))}")


def _whole(what: str, given: Any) -> tuple[int, ...]:
    listed = given if isinstance(given, (tuple, list, np.ndarray)) else (given,)
    if not all(isinstance(each, (int, np.integer)) and not isinstance(each, bool) for each in listed):
        raise UsageError(f"{what}={given!r} is no list of whole numbers", f"write {what}=(64, 32), for example")
    return tuple(int(each) for each in listed)


def _reversed(what: str, given: Any, rank: int) -> tuple[int, ...]:
    found = _whole(what, given)
    if len(found) != rank:
        raise UsageError(f"{what}={given!r} has {len(found)} numbers, and the tensor has {rank} axes",
                         "give one for each axis, or shape and strides of the tensor")  # fmt: skip
    return tuple(reversed(found))


def _swizzle(given: int | str | None) -> int:
    known = _SWIZZLES.get(given, given) if isinstance(given, (str, type(None))) else given
    if isinstance(known, bool) or not isinstance(known, (int, np.integer)):
        raise UsageError(f"swizzle={given!r} is not known", "use 0, 32, 64 or 128 bytes")
    return int(known)


def _dtype(host: HostArray, name: str) -> DType:
    own = host.values.dtype
    if name:
        _one_of("dtype", name, tuple(_NAMED))
        if _NAMED[name].itemsize != own.itemsize:
            raise DTypeError(f"dtype={name!r} has {_NAMED[name].itemsize} bytes, and the array's {own} {own.itemsize}")
        return _NAMED[name]
    if own not in _BY_NUMPY:
        raise DTypeError(f"a tensor map has no elements of {own}", f"use one of {', '.join(_NAMED)}")
    return _BY_NUMPY[own]


def _layout(
    host: HostArray, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents, and strides in bytes, of each axis; 0 bytes where an axis has one element and so no next."""
    values, size = host.values, host.values.dtype.itemsize
    if not shape and strides:
        raise UsageError("a tensor map with strides and no shape", "give shape as well")
    if shape and not strides:
        strides = tuple(int(np.prod(shape[n + 1 :], dtype=np.int64)) for n in range(len(shape)))
        if not values.flags.c_contiguous:
            raise UsageError("shape without strides is for an array whose elements are contiguous", "give strides")
    if shape and len(strides) != len(shape):
        raise UsageError(f"shape has {len(shape)} axes and strides has {len(strides)}", "give one stride for each axis")
    extents = shape or values.shape
    steps = tuple(each * size for each in strides) if shape else tuple(host.strides)
    if not extents or 0 in extents:
        raise UsageError(f"an array of shape {tuple(extents)} has no tensor map", "it needs 1 to 5 axes with elements")
    if extents[-1] > 1 and steps[-1] != size:
        raise UsageError(f"the last axis steps by {steps[-1]} bytes, and a tensor map's innermost one is contiguous",
                         "put the contiguous axis last, for example with array.transpose(…)")  # fmt: skip
    if shape and sum((e - 1) * s for e, s in zip(extents, steps, strict=True)) + size > _span(host):
        raise UsageError(
            f"a tensor of shape {shape} and strides {strides} ends beyond the array's {values.size} elements"
        )
    return extents, tuple(0 if extent == 1 else step for extent, step in zip(extents, steps, strict=True))


def _span(host: HostArray) -> int:
    """Bytes from the first element to the end of the last."""
    values = host.values
    return int(sum((n - 1) * s for n, s in zip(values.shape, host.strides, strict=True)) + values.dtype.itemsize)


def _im2col(given: Sequence[Any]) -> Im2col:
    if not isinstance(given, (tuple, list)) or len(given) != 4:
        raise UsageError(f"im2col={given!r}", "write im2col=(lower corner, upper corner, channels, pixels)")
    lower, upper = (_whole("im2col", corner)[::-1] for corner in given[:2])
    channels, pixels = _whole("im2col", given[2:])
    return Im2col(lower, upper, channels, pixels)
