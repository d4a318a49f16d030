"""A struct that is passed by value, given field by field: numbers, and one array in place of a pointer.

Compilers pass a matrix so: CuTe DSL and MLIR as its pointer with its extents behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.call.any_kernel.arrays import is_array
from gemmsmith.call.any_kernel.types import with_article
from gemmsmith.errors import DTypeError

_POINTER = 8


def struct_template(name: str, fields: tuple[Any, ...], size: int) -> tuple[bytes, int]:
    """The bytes of a struct with zeros for its pointer, and where the pointer is (-1: it has none).

    Each field is on a multiple of its own size, as C++ has it. Plain integers have 4 bytes, floats 4.
    """
    data, pointer = b"", -1
    for number, field in enumerate(fields):
        if is_array(field) and getattr(field, "ndim", 0) > 0:
            if pointer >= 0:
                raise DTypeError(f"{name} has two arrays among its fields", "pass the struct's bytes, or ctypes")
            packed = bytes(_POINTER)
            pointer = -(-len(data) // _POINTER) * _POINTER
        else:
            packed = _packed(f"{name}.{number}", field)
        data += bytes(-len(data) % len(packed)) + packed
    if len(data) > size or size - len(data) >= _POINTER:
        raise DTypeError(f"{name} has {size} bytes, and its {len(fields)} fields have {len(data)}",
                         "give each number with its type: np.int64(3), or 3:i64 in words")  # fmt: skip
    return data.ljust(size, b"\0"), pointer


def _packed(name: str, field: Any) -> bytes:
    if isinstance(field, (np.generic, np.ndarray)):
        return field.tobytes()
    if isinstance(field, bool | int):
        return int(field).to_bytes(4, "little", signed=field < 0)
    if isinstance(field, float):
        return np.float32(field).tobytes()
    raise DTypeError(f"{name} is {with_article(type(field).__name__)}", "a field is a number or an array")
