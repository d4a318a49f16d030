"""The 128 bytes of a tensor map: the driver's encoding, and the simulator's.

TMA's requirements on a matrix and its boxes are checked here first, because the driver only reports an invalid value.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from gemmsmith.errors import ConfigError, UnsupportedError
from gemmsmith.kernel.geometry import Im2col, TensorMap
from gemmsmith.kernel.signature import MAP_BYTES
from gemmsmith.run.map_types import FLOATS, MAP_TYPES, map_type, map_type_number

ALIGNMENT = 16  # bytes: of the address, of every stride, and of the rows of a box
_LARGEST_RANK = 5
_LARGEST_BOX = 256
_LARGEST_STEP = 8
_LARGEST_PIXELS = 1024
_LARGEST_EXTENT = 2**32
_LARGEST_STRIDE = 2**40  # exclusive
# CUtensorMapSwizzle and CUtensorMapInterleave of cuda.h
_DRIVER_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_DRIVER_INTERLEAVES = {0: 0, 16: 1, 32: 2}
# CUtensorMapL2promotion: how much of DRAM the L2 fetches for a request.
_PROMOTE_TO_128_BYTES, _PROMOTE_TO_256_BYTES, _LINE = 2, 3, 128
_CORNER_BITS = {3: 16, 4: 8, 5: 5}  # of a corner of an im2col map's bounding box, by rank

Encoder = Callable[[TensorMap, int], tuple[int, bytes]]
"""The driver's status (0: success) and the encoded map."""


def check_tensor_map(described: TensorMap, address: int) -> None:
    """Raise unless TMA can copy boxes of this tensor at this address."""
    name, rank = described.operand, len(described.extents)
    sides = rank if described.im2col is None else 2
    if not 1 <= rank <= _LARGEST_RANK or len(described.box) != sides or len(described.strides) != rank - 1:
        raise ConfigError(
            f"the tensor map of {name} has {rank} extents, {len(described.strides)} strides and a box of "
            f"{len(described.box)}", f"1 to {_LARGEST_RANK} dimensions, each but the innermost with a stride",
        )  # fmt: skip
    if described.im2col is None:
        _check_box(described)
    else:
        _check_im2col(described, described.im2col)
    _check_row(described)
    _check_modes(described)
    alignment = max(ALIGNMENT, described.interleave)
    if address % alignment:
        raise UnsupportedError(
            f"{name} is at {address:#x}, {address % alignment} bytes past a multiple of {alignment}: no tensor map can "
            "describe it", f"copy {name} to memory that is aligned to {alignment} bytes",
        )  # fmt: skip
    for stride in described.strides:
        if stride % alignment or not 0 <= stride < _LARGEST_STRIDE:
            raise UnsupportedError(
                f"rows or matrices of {name} are {stride:,} bytes apart: a tensor map takes multiples of {alignment} "
                "below 2^40", f"make leading dimension and batch stride of {name} multiples of "
                f"{alignment // described.dtype.itemsize} elements",
            )  # fmt: skip
    for extent in described.extents:
        if not 1 <= extent <= _LARGEST_EXTENT:
            raise UnsupportedError(f"{name} has an extent of {extent:,}; a tensor map takes 1 to 2^32")


def _check_box(described: TensorMap) -> None:
    box, name = described.box, described.operand
    if not all(1 <= side <= _LARGEST_BOX for side in box):
        shown = "x".join(map(str, box))
        raise ConfigError(f"a box of {shown} elements of {name}", f"each side is 1 to {_LARGEST_BOX}")


def _check_im2col(described: TensorMap, how: Im2col) -> None:
    name, rank = described.operand, len(described.extents)
    if rank not in _CORNER_BITS or not len(how.lower) == len(how.upper) == rank - 2:
        raise ConfigError(
            f"an im2col map of {name} with {rank} dimensions and corners of {len(how.lower)} and {len(how.upper)}",
            "3, 4 or 5 dimensions (C, W, H, D, N), and a corner for each of W, H, D",
        )
    most = 1 << _CORNER_BITS[rank] - 1
    if not all(-most <= corner < most for corner in (*how.lower, *how.upper)):
        raise ConfigError(f"a corner of {name}'s im2col map is beyond {-most} to {most - 1}",
                          f"which is what a map of {rank} dimensions holds")  # fmt: skip
    if not 1 <= how.channels <= _LARGEST_BOX or not 1 <= how.pixels <= _LARGEST_PIXELS:
        raise ConfigError(f"an im2col map of {name} with {how.channels} channels and {how.pixels} pixels",
                          f"1 to {_LARGEST_BOX} channels and 1 to {_LARGEST_PIXELS} pixels")  # fmt: skip
    spans = zip(described.extents[1:], how.lower, how.upper, strict=False)
    if any(extent + upper - lower < 1 for extent, lower, upper in spans):
        raise ConfigError(f"the bounding box of {name}'s im2col map is empty: its upper corner is before its lower one")


def _check_row(described: TensorMap) -> None:
    name, row = described.operand, described.box[0] * described.dtype.itemsize
    if described.swizzle not in _DRIVER_SWIZZLES:
        raise ConfigError(f"{name} has a swizzle of {described.swizzle} bytes", "use 32, 64 or 128, or 0 for none")
    if row % ALIGNMENT:
        raise ConfigError(f"a box of {name} has rows of {row} bytes", f"use a multiple of {ALIGNMENT}")
    if described.swizzle and not described.interleave and row > described.swizzle:
        raise ConfigError(
            f"a box of {name} has rows of {row} bytes, longer than the {described.swizzle} bytes of its swizzle"
        )


def _check_modes(described: TensorMap) -> None:
    name, rank = described.operand, len(described.extents)
    if described.interleave not in _DRIVER_INTERLEAVES:
        raise ConfigError(f"{name} is interleaved by {described.interleave} bytes", "use 16 or 32, or 0 for none")
    if described.interleave and rank < 3:
        raise ConfigError(f"{name} has {rank} dimensions, and interleaved tensors have 3 to 5")
    if described.interleave == 32 and described.swizzle != 32:
        raise ConfigError(f"{name} is interleaved by 32 bytes with a swizzle of {described.swizzle}",
                          "use a swizzle of 32 with it")  # fmt: skip
    if described.steps and (
        len(described.steps) != rank or not all(1 <= step <= _LARGEST_STEP for step in described.steps)
    ):
        raise ConfigError(f"{name} has element strides {described.steps}",
                          f"one for each of {rank} dimensions, from 1 to {_LARGEST_STEP}")  # fmt: skip
    if described.nan_fill and described.dtype.name not in FLOATS:
        raise ConfigError(f"{name} has elements of {described.dtype}, and NaN outside the tensor is for floats",
                          "leave the fill at zeros")  # fmt: skip


def driver_encoder(function: int) -> Encoder:
    """``cuTensorMapEncodeTiled``, whose address the driver gave.

    It is called through ctypes because it writes to a structure that must be aligned to 64 bytes, which the object of
    the bindings is only by chance.
    """
    pointer, word = ctypes.c_void_p, ctypes.c_uint32
    call = ctypes.CFUNCTYPE(ctypes.c_int, pointer, word, word, pointer, pointer, pointer, pointer, pointer,
                            word, word, word, word)(function)  # fmt: skip

    def encode(described: TensorMap, address: int) -> tuple[int, bytes]:
        box = (word * len(described.box))(*described.box)
        return _encoded(described, address, lambda first, last: call(*first, box, *last))

    return encode


def driver_im2col_encoder(function: int) -> Encoder:
    """``cuTensorMapEncodeIm2col``."""
    pointer, word = ctypes.c_void_p, ctypes.c_uint32
    call = ctypes.CFUNCTYPE(ctypes.c_int, pointer, word, word, pointer, pointer, pointer, pointer, pointer, word, word,
                            pointer, word, word, word, word)(function)  # fmt: skip

    def encode(described: TensorMap, address: int) -> tuple[int, bytes]:
        how = described.im2col
        assert how is not None
        # The driver's order of the corners is {D, H, W} in its text, and that of the dimensions, W first, in its code.
        lower, upper = ((ctypes.c_int * len(corner))(*corner) for corner in (how.lower, how.upper))
        return _encoded(described, address,
                        lambda first, last: call(*first, lower, upper, how.channels, how.pixels, *last))  # fmt: skip

    return encode


def _encoded(described: TensorMap, address: int, call: Callable[[Any, Any], int]) -> tuple[int, bytes]:
    """Call the driver with the arguments that come before and after those of a mode."""
    rank, word = len(described.extents), ctypes.c_uint32
    room = ctypes.create_string_buffer(MAP_BYTES + 63)
    target = -(-ctypes.addressof(room) // 64) * 64
    extents = (ctypes.c_uint64 * rank)(*described.extents)
    strides = (ctypes.c_uint64 * max(1, rank - 1))(*_driver_strides(described))
    steps = (word * rank)(*(described.steps or (1,) * rank))
    status = call(
        (target, map_type(described.dtype).driver, rank, address, extents, strides),
        (steps, _DRIVER_INTERLEAVES[described.interleave], _DRIVER_SWIZZLES[described.swizzle],
         promotion(described, address), int(described.nan_fill)),
    )  # fmt: skip
    return int(status), ctypes.string_at(target, MAP_BYTES)


def promotion(described: TensorMap, address: int) -> int:
    """How much L2 fetches: 256 bytes where all rows start on a line of 128 bytes, else 128.

    Measured on an H200: with other rows, 128 bytes took 10 to 14 % less time at three products and 2.3 % less in the
    mean of 307 configurations, of which some were slower. The 128 bytes of a box's row may then lie in two blocks of
    256, and both may be fetched. With rows on lines, 256 bytes were up to 2 % faster; not so where blocks share tiles,
    which ask for 128 (``fetch``)."""
    if described.fetch == _LINE:
        return _PROMOTE_TO_128_BYTES
    on_lines = not address % _LINE and not any(stride % _LINE for stride in described.strides[:1])
    return _PROMOTE_TO_256_BYTES if on_lines else _PROMOTE_TO_128_BYTES


def _driver_strides(described: TensorMap) -> list[int]:
    """The strides, with a legal one in place of 0 where there is a single row or matrix and no step to the next."""
    found: list[int] = []
    step = described.extents[0] * described.dtype.itemsize
    for extent, stride in zip(described.extents[1:], described.strides, strict=True):
        tight = min(-(-step // ALIGNMENT) * ALIGNMENT, _LARGEST_STRIDE - ALIGNMENT)
        found.append(tight if stride == 0 and extent == 1 else stride)
        step = found[-1] * extent
    return found


# --- the simulator: magic, address, rank (and whether it is im2col), swizzle, type, operand, 5 extents, 4 strides,
# --- 5 box sides, 5 element strides, interleave, fill, 3 lower and 3 upper corners; the rest is unused
_MAGIC = int.from_bytes(b"TMASIM02", "little")
_FORMAT = struct.Struct(f"<QQ4B{_LARGEST_RANK}Q{_LARGEST_RANK - 1}Q{_LARGEST_RANK}H{_LARGEST_RANK}B2B6h")
_IM2COL = 0x80
_OPERANDS = ("A", "B", "C", "a tensor")


def encode_simulated(described: TensorMap, address: int) -> bytes:
    """A map of 128 bytes that holds its description as plain integers."""

    def padded(values: tuple[int, ...], count: int) -> list[int]:
        return [*values, *[0] * (count - len(values))]

    how = described.im2col
    operand = _OPERANDS.index(described.operand) if described.operand in _OPERANDS else len(_OPERANDS) - 1
    fields = (_MAGIC, address, len(described.extents) | (0 if how is None else _IM2COL), described.swizzle,
              map_type_number(described.dtype), operand, *padded(described.extents, _LARGEST_RANK),
              *padded(described.strides, _LARGEST_RANK - 1), *padded(described.box, _LARGEST_RANK),
              *padded(described.steps, _LARGEST_RANK), described.interleave, int(described.nan_fill),
              *padded(() if how is None else how.lower, 3), *padded(() if how is None else how.upper, 3))  # fmt: skip
    return _FORMAT.pack(*fields).ljust(MAP_BYTES, b"\0")


def decode_simulated(data: bytes) -> tuple[TensorMap, int]:
    """The map and the address that ``encode_simulated`` encoded."""
    values: list[Any] = list(_FORMAT.unpack_from(data)) if len(data) == MAP_BYTES else [0]
    if values[0] != _MAGIC:
        raise UnsupportedError("these bytes are not a tensor map of the simulator")
    address, rank, swizzle, dtype, operand = values[1:6]
    extents, strides, box, steps = values[6:11], values[11:15], values[15:20], values[20:25]
    interleave, nan_fill, corners = values[25], bool(values[26]), values[27:33]
    is_im2col, rank = bool(rank & _IM2COL), rank & ~_IM2COL
    how = Im2col(tuple(corners[: rank - 2]), tuple(corners[3 : rank + 1]), box[0], box[1]) if is_im2col else None
    described = TensorMap(_OPERANDS[operand], MAP_TYPES[dtype].dtype, tuple(extents[:rank]),
                          tuple(strides[: rank - 1]), tuple(box[: 2 if is_im2col else rank]), swizzle, interleave,
                          nan_fill, tuple(steps[:rank]) if any(steps) else (), how)  # fmt: skip
    return described, address
