"""A struct that is passed by value, given field by field: numbers, arrays in place of pointers, tensor maps, structs.

Compilers pass a matrix so: CuTe DSL and MLIR as its pointer with its extents behind it. Kernels that people write pass
several tensor maps in one struct of parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.call.any_kernel.arrays import is_array
from gemmsmith.call.any_kernel.tensor_maps import TensorMapOf
from gemmsmith.call.any_kernel.types import with_article
from gemmsmith.errors import DTypeError
from gemmsmith.kernel.signature import MAP_BYTES

_POINTER = 8
_MAP_ALIGNMENTS = (64, 128)  # of CUtensorMap: until CUDA 12, since CUDA 13


@dataclass(frozen=True)
class HeldField:
    """A field whose bytes are known once its array is on the device. ``at``: where they belong in the struct."""

    name: str
    at: int
    value: Any

    @property
    def array(self) -> Any:
        return self.value.array if isinstance(self.value, TensorMapOf) else self.value


def holds_arrays(value: Any) -> bool:
    """Whether ``value`` is a struct given as its fields, with an array or a tensor map among them."""
    return isinstance(value, tuple) and any(_held_bytes(each) or holds_arrays(each) for each in value)


def struct_template(name: str, fields: tuple[Any, ...], size: int = 0) -> tuple[bytes, tuple[HeldField, ...]]:
    """The bytes of a struct with zeros where addresses and tensor maps belong, and what belongs there.

    Each field is on a multiple of its own alignment, as C++ has it. Plain integers have 4 bytes, floats 4. ``size``: 0
    for as many bytes as the fields need.
    """
    if not size:
        data, _, alignment = _laid_out(name, fields, 0, _MAP_ALIGNMENTS[0])
        size = _rounded(len(data), alignment)
    for of_maps in _MAP_ALIGNMENTS:
        data, held, alignment = _laid_out(name, fields, 0, of_maps)
        if len(data) <= size < len(data) + max(_POINTER, alignment):
            break
    else:
        needed = len(_laid_out(name, fields, 0, _MAP_ALIGNMENTS[0])[0])
        raise DTypeError(f"{name} has {size} bytes, and its {len(fields)} fields have {needed}",
                         "give each number with its type: np.int64(3), or 3:i64 in words")  # fmt: skip
    if len(held) == 1:
        held = (HeldField(name, held[0].at, held[0].value),)
    return data.ljust(size, b"\0"), held


def _laid_out(name: str, fields: tuple[Any, ...], start: int, of_maps: int) -> tuple[bytes, tuple[HeldField, ...], int]:
    """Bytes, held fields and alignment of a struct that begins ``start`` bytes from the outermost one."""
    data, most = b"", 1
    held: tuple[HeldField, ...] = ()
    for number, field in enumerate(fields):
        own = f"{name}.{number}"
        if isinstance(field, tuple):
            alignment = _laid_out(own, field, 0, of_maps)[2]
            at = _rounded(len(data), alignment)
            packed, inner, _ = _laid_out(own, field, start + at, of_maps)
            packed = packed.ljust(_rounded(len(packed), alignment), b"\0")
        else:
            packed = bytes(_held_bytes(field)) or _packed(own, field)
            alignment = of_maps if isinstance(field, TensorMapOf) else len(packed)
            at = _rounded(len(data), alignment)
            inner = (HeldField(own, start + at, field),) if _held_bytes(field) else ()
        data, held, most = data.ljust(at, b"\0") + packed, held + inner, max(most, alignment)
    return data, held, most


def _rounded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _held_bytes(field: Any) -> int:
    """The bytes of a field that is a tensor map or an array, for which its address stands; 0 for a number."""
    if isinstance(field, TensorMapOf):
        return MAP_BYTES
    return _POINTER if is_array(field) and getattr(field, "ndim", 0) > 0 else 0


def _packed(name: str, field: Any) -> bytes:
    if isinstance(field, (np.generic, np.ndarray)):
        return field.tobytes()
    if isinstance(field, bool | int):
        return int(field).to_bytes(4, "little", signed=field < 0)
    if isinstance(field, float):
        return np.float32(field).tobytes()
    if field is None:
        return bytes(_POINTER)
    raise DTypeError(f"{name} is {with_article(type(field).__name__)}",
                     "a field is a number, an array, a tensor map or a tuple of fields")  # fmt: skip
