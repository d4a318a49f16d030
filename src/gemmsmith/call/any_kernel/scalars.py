"""Scalar arguments as the bytes that a kernel's parameter takes: numbers by type, structs by their bytes."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from gemmsmith.call.any_kernel.kernel import Parameter
from gemmsmith.call.any_kernel.types import integer_of, with_article
from gemmsmith.errors import DTypeError

_NUMBERS = (bool, int, float, np.number, np.bool_, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)


# What PTX says of a number. Compilers write .u32 for signed integers, too, so that takes either.
_PTX_TYPES = {"f16": "f2", "f32": "f4", "f64": "f8", "s8": "i1", "s16": "i2", "s32": "i4", "s64": "i8"}


def pack_scalar(parameter: Parameter, value: Any, is_enum: bool = False) -> bytes:
    """The bytes of ``value`` for a parameter that is passed by value."""
    kind, size = parameter.type, parameter.size
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    raw = _raw(value)
    if raw is not None:
        if len(raw) != size:
            raise DTypeError(f"{parameter.name} has {size} bytes, and {len(raw)} were given", f"it is a {kind}")
        return raw
    if kind.known and kind.element is not None and kind.lanes > 1:
        return _vector(parameter, value)
    if not isinstance(value, _NUMBERS):
        raise _refusal(parameter, value)
    if kind.known and kind.element is not None:
        return _number(parameter, kind.element, value)
    if parameter.ptx_type[:1] in "sf" and parameter.ptx_type in _PTX_TYPES and not isinstance(value, np.generic):
        return _number(parameter, np.dtype(_PTX_TYPES[parameter.ptx_type]), value)
    if parameter.ptx_type[:1] == "u" and isinstance(value, float) and value != int(value):
        raise DTypeError(f"{parameter.name} is a .{parameter.ptx_type}, and {value!r} is no integer",
                         f"pass an integer, or a number's bits: np.float{8 * parameter.size}({value!r})")  # fmt: skip
    return _untyped(parameter, value, is_enum)


def _raw(value: Any) -> bytes | None:
    """The bytes of a struct that is given as such; None for everything else."""
    if isinstance(value, (bytes, bytearray, memoryview, ctypes.Structure, ctypes.Union)):
        return bytes(value)
    return value.tobytes() if isinstance(value, np.void) else None


def _number(parameter: Parameter, dtype: np.dtype[Any], value: Any) -> bytes:
    own = str(parameter.type) if parameter.type.known else f".{parameter.ptx_type}"
    shown = f"{parameter.name} is {with_article(own)}"
    if dtype.kind in "iu":
        if isinstance(value, (float, np.floating)) and value != int(value):
            raise DTypeError(f"{shown}, and {value!r} is no integer")
        whole, limits = int(value), np.iinfo(dtype)
        # A negative number for an unsigned parameter is what C++ would wrap silently.
        if not limits.min <= whole <= limits.max:
            raise DTypeError(f"{shown}, which {whole} does not fit", f"it holds {limits.min} to {limits.max}")
        return np.array(whole, dtype).tobytes()
    if isinstance(value, complex):
        raise DTypeError(f"{shown}, and {value!r} is complex")
    with np.errstate(over="ignore"):
        return np.array(value).astype(dtype).tobytes()


def _vector(parameter: Parameter, value: Any) -> bytes:
    kind = parameter.type
    if kind.base == "dim3" and isinstance(value, (tuple, list)):
        value = (*value, *[1] * (3 - len(value)))
    numbers = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(numbers, (tuple, list)) or len(numbers) != kind.lanes:
        raise DTypeError(f"{parameter.name} is {with_article(str(kind))}", f"pass {kind.lanes} numbers")
    assert kind.element is not None
    return b"".join(_number(parameter, kind.element, number) for number in numbers)


def _untyped(parameter: Parameter, value: Any, is_enum: bool) -> bytes:
    """A number for an enumeration, or for a parameter of which only the size is known."""
    size = parameter.size
    if isinstance(value, (np.number, np.bool_)) and value.dtype.itemsize == size:
        return value.tobytes()
    free = is_enum or not parameter.type.known
    if free and isinstance(value, (bool, int, np.integer)) and size in (1, 2, 4, 8):
        return np.array(int(value), np.int64).astype(integer_of(size)).tobytes()
    if free and isinstance(value, float) and size in (4, 8):
        return np.array(value, np.float32 if size == 4 else np.float64).tobytes()
    raise _refusal(parameter, value)


def _refusal(parameter: Parameter, value: Any) -> DTypeError:
    kind = type(value).__name__
    if parameter.type.known and parameter.type.element is not None:
        named = f"{parameter.name} is {with_article(str(parameter.type))}"
        return DTypeError(f"{named}, and {with_article(kind)} was given", "pass a number")
    return DTypeError(
        f"{parameter.name} is passed by value in {parameter.size} bytes ({parameter.type}), and "
        f"{with_article(kind)} was given",
        f"pass its {parameter.size} bytes, a ctypes.Structure, or a structured scalar of NumPy",
    )
