"""The 128 bytes of a tensor map: the driver's encoding, and the simulator's.

TMA's requirements on a matrix and its boxes are checked here first, because the driver only reports an invalid value.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from gemmsmith.errors import ConfigError, UnsupportedError
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.kernel.signature import MAP_BYTES
from gemmsmith.problem import BF16, DTYPES, FP16, FP32, INT8, INT32, TF32

ALIGNMENT = 16  # bytes: of the address, of every stride, and of the rows of a box
_LARGEST_RANK = 5
_LARGEST_BOX = 256
_LARGEST_EXTENT = 2**32
_LARGEST_STRIDE = 2**40  # exclusive
# CUtensorMapDataType and CUtensorMapSwizzle of cuda.h
_DRIVER_TYPES = {INT8.name: 0, INT32.name: 3, FP16.name: 6, FP32.name: 7, BF16.name: 9, TF32.name: 11}
_DRIVER_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_NO_INTERLEAVE, _PROMOTE_TO_256_BYTES, _ZEROS_OUTSIDE = 0, 3, 0

Encoder = Callable[[TensorMap, int], tuple[int, bytes]]
"""The driver's status (0: success) and the encoded map."""


def check_tensor_map(described: TensorMap, address: int) -> None:
    """Raise unless TMA can copy boxes of this matrix at this address."""
    name, rank = described.operand, len(described.extents)
    if not 1 <= rank <= _LARGEST_RANK or len(described.box) != rank or len(described.strides) != rank - 1:
        raise ConfigError(
            f"the tensor map of {name} has {rank} extents, {len(described.strides)} strides and a box of "
            f"{len(described.box)}", f"1 to {_LARGEST_RANK} dimensions, each but the innermost with a stride",
        )  # fmt: skip
    _check_box(described)
    if address % ALIGNMENT:
        raise UnsupportedError(
            f"{name} is at {address:#x}, {address % ALIGNMENT} bytes past a multiple of {ALIGNMENT}: no tensor map can "
            "describe it", f"copy {name} to memory that is aligned to {ALIGNMENT} bytes",
        )  # fmt: skip
    for stride in described.strides:
        if stride % ALIGNMENT or not 0 <= stride < _LARGEST_STRIDE:
            raise UnsupportedError(
                f"rows or matrices of {name} are {stride:,} bytes apart: a tensor map takes multiples of {ALIGNMENT} "
                "below 2^40", f"make leading dimension and batch stride of {name} multiples of "
                f"{ALIGNMENT // described.dtype.itemsize} elements",
            )  # fmt: skip
    for extent in described.extents:
        if not 1 <= extent <= _LARGEST_EXTENT:
            raise UnsupportedError(f"{name} has an extent of {extent:,}; a tensor map takes 1 to 2^32")


def _check_box(described: TensorMap) -> None:
    box, name = described.box, described.operand
    if not all(1 <= side <= _LARGEST_BOX for side in box):
        shown = "x".join(map(str, box))
        raise ConfigError(f"a box of {shown} elements of {name}", f"each side is 1 to {_LARGEST_BOX}")
    row = box[0] * described.dtype.itemsize
    if row % ALIGNMENT:
        raise ConfigError(f"a box of {name} has rows of {row} bytes", f"use a multiple of {ALIGNMENT}")
    if described.swizzle not in _DRIVER_SWIZZLES:
        raise ConfigError(f"{name} has a swizzle of {described.swizzle} bytes", "use 32, 64 or 128, or 0 for none")
    if described.swizzle and row > described.swizzle:
        raise ConfigError(
            f"a box of {name} has rows of {row} bytes, longer than the {described.swizzle} bytes of its swizzle"
        )


def driver_encoder(function: int) -> Encoder:
    """``cuTensorMapEncodeTiled``, whose address the driver gave.

    It is called through ctypes because it writes to a structure that must be aligned to 64 bytes, which the object of
    the bindings is only by chance.
    """
    pointer, word = ctypes.c_void_p, ctypes.c_uint32
    call = ctypes.CFUNCTYPE(ctypes.c_int, pointer, word, word, pointer, pointer, pointer, pointer, pointer,
                            word, word, word, word)(function)  # fmt: skip
    ones = (word * _LARGEST_RANK)(*[1] * _LARGEST_RANK)

    def encode(described: TensorMap, address: int) -> tuple[int, bytes]:
        rank = len(described.extents)
        room = ctypes.create_string_buffer(MAP_BYTES + 63)
        target = -(-ctypes.addressof(room) // 64) * 64
        extents = (ctypes.c_uint64 * rank)(*described.extents)
        strides = (ctypes.c_uint64 * max(1, rank - 1))(*_driver_strides(described))
        box = (word * rank)(*described.box)
        status = call(target, _DRIVER_TYPES[described.dtype.name], rank, address, extents, strides, box, ones,
                      _NO_INTERLEAVE, _DRIVER_SWIZZLES[described.swizzle], _PROMOTE_TO_256_BYTES,
                      _ZEROS_OUTSIDE)  # fmt: skip
        return int(status), ctypes.string_at(target, MAP_BYTES)

    return encode


def _driver_strides(described: TensorMap) -> list[int]:
    """The strides, with a legal one in place of 0 where there is a single row or matrix and no step to the next."""
    found: list[int] = []
    step = described.extents[0] * described.dtype.itemsize
    for extent, stride in zip(described.extents[1:], described.strides, strict=True):
        tight = min(-(-step // ALIGNMENT) * ALIGNMENT, _LARGEST_STRIDE - ALIGNMENT)
        found.append(tight if stride == 0 and extent == 1 else stride)
        step = found[-1] * extent
    return found


# --- the simulator: magic, address, rank, swizzle, type, operand, 5 extents, 4 strides, 5 box sides; the rest is unused
_MAGIC = int.from_bytes(b"TMASIM01", "little")
_FORMAT = struct.Struct(f"<QQ4B{_LARGEST_RANK}Q{_LARGEST_RANK - 1}Q{_LARGEST_RANK}H")
_TYPES, _OPERANDS = tuple(DTYPES.values()), "ABC"


def encode_simulated(described: TensorMap, address: int) -> bytes:
    """A map of 128 bytes that holds its description as plain integers."""

    def padded(values: tuple[int, ...], count: int) -> list[int]:
        return [*values, *[0] * (count - len(values))]

    fields = (_MAGIC, address, len(described.extents), described.swizzle, _TYPES.index(described.dtype),
              _OPERANDS.index(described.operand), *padded(described.extents, _LARGEST_RANK),
              *padded(described.strides, _LARGEST_RANK - 1), *padded(described.box, _LARGEST_RANK))  # fmt: skip
    return _FORMAT.pack(*fields).ljust(MAP_BYTES, b"\0")


def decode_simulated(data: bytes) -> tuple[TensorMap, int]:
    """The map and the address that ``encode_simulated`` encoded."""
    values: list[Any] = list(_FORMAT.unpack_from(data)) if len(data) == MAP_BYTES else [0]
    if values[0] != _MAGIC:
        raise UnsupportedError("these bytes are not a tensor map of the simulator")
    address, rank, swizzle, dtype, operand = values[1:6]
    extents, strides, box = values[6:11], values[11:15], values[15:20]
    described = TensorMap(_OPERANDS[operand], _TYPES[dtype], tuple(extents[:rank]), tuple(strides[: rank - 1]),
                          tuple(box[:rank]), swizzle)  # fmt: skip
    return described, address
