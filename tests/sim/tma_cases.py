"""What is recorded of TMA: boxes of all ranks, swizzles, types, starts and edges; element strides and im2col; stores
and reductions; maps that the driver refuses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tma_kernels import Case, Group

from gemmsmith.kernel.geometry import Im2col, TensorMap
from gemmsmith.problem import BF16, FP16, FP32, FP64, INT32, TF32, UINT8, DType
from gemmsmith.run.map_types import FP32_FTZ, INT64, TF32_FTZ, UINT16, UINT32, UINT64

INTEGERS = (UINT8, UINT16, UINT32, UINT64)
FLOATS = (FP16, BF16, FP32, FP32_FTZ, TF32, TF32_FTZ, FP64)
NAME = "a tensor"


def tensor(
    dtype: DType, extents: tuple[int, ...], box: tuple[int, ...], swizzle: int = 0, *, interleave: int = 0,
    nan: bool = False, steps: tuple[int, ...] = (), im2col: Im2col | None = None, pad: int = 0, inner: int = 0,
) -> TensorMap:  # fmt: skip
    """A tensor whose rows are padded to 16 bytes (32 if interleaved by so many) and ``pad`` more."""
    unit = max(16, interleave)
    step = -(-(inner or extents[0] * dtype.itemsize) // unit) * unit + pad
    strides = []
    for extent in extents[1:]:
        strides.append(step)
        step = step * extent + pad
    return TensorMap(NAME, dtype, extents, tuple(strides), box, swizzle, interleave, nan, steps, im2col)


def edges(extents: tuple[int, ...], box: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Coordinates inside, across each side of each dimension, and nowhere."""
    rank = len(extents)
    yield (0,) * rank
    yield tuple(min(1, e - 1) for e in extents)
    for dimension in range(rank):
        side, extent = box[dimension] if dimension < len(box) else 1, extents[dimension]
        for at in (-1, -(side // 2) - 1, extent - side + 1, extent - 1, extent, -side, -(2**31), 2**31 - 1):
            yield tuple(at if d == dimension else min(1, extents[d] - 1) for d in range(rank))
    yield tuple(-1 for _ in extents)
    yield tuple(e - 1 for e in extents)


_BOXES = {
    1: ((40,), (32,)), 2: ((41, 9), (24, 4)), 3: ((21, 5, 4), (16, 3, 2)), 4: ((21, 5, 4, 3), (16, 2, 2, 2)),
    5: ((19, 4, 3, 3, 2), (16, 2, 2, 2, 2)),
}  # fmt: skip


def _ranks() -> Iterator[Case]:
    for extents, box in _BOXES.values():
        for at in edges(extents, box):
            yield Case(tensor(UINT16, extents, box, pad=16), at, offset=64)


def _swizzles() -> Iterator[Case]:
    for dtype, swizzle in product(INTEGERS, (0, 32, 64, 128)):
        widths = [w for w in (16, 32, 48, 64, 112, 128) if w <= (swizzle or 128)]
        for width in widths[:2] + widths[-2:]:
            box = (width // dtype.itemsize, 12)
            starts = (0, 128, 384, 512, 1024, 1920) if dtype is UINT16 else (0, 640)
            for start in starts:
                yield Case(tensor(dtype, (256 // dtype.itemsize, 40), box, swizzle), (16 // dtype.itemsize, 3), start)
    for swizzle in (32, 64, 128):  # several dimensions
        yield Case(tensor(UINT16, (32, 5, 4, 4), (8, 3, 2, 2), swizzle), (4, 1, 1, 1), 128)


def _types(nan: bool) -> Iterator[Case]:
    for dtype in (*FLOATS, *(() if nan else (*INTEGERS, INT32, INT64))):
        size = dtype.itemsize
        for swizzle in (0, 64):
            extents, box = (200 // size + 1, 11), (64 // size, 8)
            for at in ((0, 0), (-3, -2), (200 // size - 5, 6), (300, 0)):
                yield Case(tensor(dtype, extents, box, swizzle, nan=nan), at, 256)


def _strides() -> Iterator[Case]:
    for steps in ((1, 2), (1, 3), (1, 8), (2, 1), (2, 2)):
        for box, at in product(((16, 8), (16, 7), (16, 1)), ((0, 0), (3, 1), (-2, -3), (50, 30), (0, 33))):
            yield Case(tensor(UINT16, (60, 37), box, steps=steps), at)
    for swizzle, steps in product((0, 64, 128), ((1, 2, 3), (1, 1, 2), (4, 5, 1))):
        for at in ((0, 0, 0), (1, 2, 1), (-1, -4, -2), (20, 8, 5)):
            yield Case(tensor(UINT16, (40, 12, 7), (24, 6, 5), swizzle, steps=steps), at)


def _im2col() -> Iterator[Case]:
    forms = (
        ((24, 9, 3), ((-1,), (-1,)), ((0,), (2,))),
        ((24, 7, 6, 3), ((-1, -2), (-1, -1)), ((0, 0), (2, 1))),
        ((24, 7, 6, 3), ((0, 0), (0, 0)), ((0, 0), (1, 3))),
        ((24, 5, 4, 3, 2), ((-1, -1, 0), (0, -1, 1)), ((0, 0, 0), (1, 2, 1))),
    )
    for extents, corners, offsets in forms:
        rank = len(extents)
        for swizzle, channels, pixels in ((0, 16, 20), (32, 16, 20), (64, 16, 20), (0, 8, 33), (128, 24, 7)):
            how = Im2col(*corners, channels, pixels)
            made = tensor(UINT16, extents, (channels, pixels), swizzle, im2col=how)
            lower = corners[0]
            for off in offsets:
                yield Case(made, (0, *lower, 0), 128, offsets=off)
            yield Case(made, (8, *(x + 1 for x in lower), 1), offsets=offsets[1])
            yield Case(made, (16, *lower, extents[-1] - 1), offsets=offsets[0])
            yield Case(made, (0, *(x + 2 for x in lower), -1), offsets=offsets[0])
        how = Im2col(*corners, 16, 20)
        steps = (1, *(2,) * (rank - 2), 1)
        for more in (steps, (1, 2, *(1,) * (rank - 2)), (1, *(1,) * (rank - 1))):
            made = tensor(UINT16, extents, (16, 20), im2col=how, steps=more)
            yield Case(made, (0, *corners[0], 0), offsets=offsets[1])
    made = tensor(FP16, (24, 7, 6, 3), (16, 20), 32, nan=True, im2col=Im2col((-1, -1), (-1, -1), 16, 20))
    yield Case(made, (16, -1, -1, 0), offsets=(0, 0))


def _stores() -> Iterator[Case]:
    for extents, box in _BOXES.values():
        for at in edges(extents, box):
            yield Case(tensor(UINT16, extents, box, pad=16), at, 128, offset=64)
    for dtype, swizzle in product(INTEGERS, (0, 32, 64, 128)):
        for width in (16, 48, 64, 128):
            if width <= (swizzle or 128):
                box = (width // dtype.itemsize, 9)
                yield Case(tensor(dtype, (176 // dtype.itemsize, 20), box, swizzle), (16 // dtype.itemsize, 3), 384)
    for dtype in (*INTEGERS, *FLOATS):  # rows are cut
        for at in ((-3, -2), (180 // dtype.itemsize, 18)):
            yield Case(tensor(dtype, (187 // dtype.itemsize, 20), (64 // dtype.itemsize, 6)), at)
    for steps, at in product(((1, 2), (1, 3)), ((0, 0), (3, -2), (50, 17))):
        yield Case(tensor(UINT16, (60, 20), (16, 7), steps=steps), at)


def _stores_im2col() -> Iterator[Case]:
    for extents, corners in (((24, 9, 3), ((-1,), (-1,))), ((24, 7, 6, 2), ((-1, -2), (-1, -1)))):
        for channels, pixels in ((16, 20), (8, 33)):
            made = tensor(UINT16, extents, (channels, pixels), im2col=Im2col(*corners, channels, pixels))
            for at in ((0, *corners[0], 0), (8, *(x + 1 for x in corners[0]), 1)):
                yield Case(made, at)


def _reduced(op: str) -> Iterator[Case]:
    floats: tuple[DType, ...] = ()
    if op in ("add", "min", "max"):
        floats = (FP16, BF16)
        if op == "add":
            floats += (FP32, FP32_FTZ, FP64)
    whole = (UINT32, INT32, UINT64) + ((INT64,) if op in ("min", "max", "and", "or", "xor") else ())
    if op in ("inc", "dec"):
        whole = (UINT32,)
    for dtype in (*floats, *whole):
        for at in ((0, 0), (-1, 14)):
            yield Case(tensor(dtype, (180 // dtype.itemsize, 18), (128 // dtype.itemsize, 12), 128), at)


def _refused() -> Iterator[Case]:
    """Maps on both sides of each of the driver's rules; those that it takes are copied as well."""
    yield from (Case(tensor(UINT16, (64, 9), (8, 4), inner=n), (0, 0)) for n in (128, 144))
    for box in ((4, 4), (8, 4), (256, 1), (257, 1), (8, 256), (0, 4)):
        if box[0] * box[1] <= 1024:
            yield Case(tensor(UINT16, (300, 9), box), (0, 0))
    for swizzle, row in product((32, 64, 128), (16, 32, 64, 128, 144)):
        yield Case(tensor(UINT16, (300, 9), (row // 2, 4), swizzle), (0, 0))
    for offset in (8, 16, 32):
        yield Case(tensor(UINT16, (300, 9), (8, 4)), (0, 0), offset=offset)
        yield Case(tensor(UINT16, (16, 3, 3), (16, 2, 2), 32, interleave=32), (0, 0, 0), offset=offset)
    for interleave, swizzle in product((16, 32), (0, 32, 64, 128)):
        yield Case(tensor(UINT16, (interleave // 2, 3, 3), (interleave // 2, 2, 2), swizzle, interleave=interleave),
                   (0, 0, 0))  # fmt: skip
        yield Case(tensor(UINT16, (64, 3), (8, 2), swizzle, interleave=interleave), (0, 0))
    for steps in ((1, 8), (1, 9), (1, 0), (8, 1), (9, 1), (0, 1)):
        yield Case(tensor(UINT16, (64, 9), (8, 4), steps=steps), (0, 0))
    for dtype in (*INTEGERS, *FLOATS):
        yield Case(tensor(dtype, (64, 9), (16, 4), nan=True), (0, 0))
    for corner in (-129, -128, 127, 128):
        how = Im2col((min(corner, 0), 0), (max(corner, 0), 0), 8, 8)
        yield Case(tensor(UINT16, (24, 300, 300, 2), (8, 8), im2col=how), (0, 0, 0, 0), offsets=(0, 0))
    # strides smaller than a row, or zero
    yield Case(TensorMap(NAME, UINT16, (64, 9), (64,), (8, 4)), (0, 0))
    yield Case(TensorMap(NAME, UINT16, (64, 9), (0,), (8, 4)), (0, 0))
    yield Case(TensorMap(NAME, UINT16, (64, 9, 4), (128, 64), (8, 4, 2)), (0, 0, 0))


def _interleaved() -> Iterator[Case]:
    """Slices of channels of 16 and 32 bytes: an element of the box is a pixel, whatever its type."""
    for interleave, swizzle in ((16, 0), (16, 32), (16, 64), (16, 128), (32, 32)):
        e = interleave // 2
        of: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[int, ...]]] = {
            ((e, 6, 5), (e, 4, 2)): [(0, 0, 0), (0, 1, 1), (0, 3, 4), (0, -1, 0), (e, 0, 0)],
            ((4 * e, 6, 5), (e, 4, 2)): [(0, 0, 0), (e, 0, 0), (0, 1, 1), (2 * e, 0, 0)],
            ((4 * e, 6, 5), (2 * e, 4, 2)): [(0, 0, 0), (e, 0, 0), (e, 1, 1)],
            ((e, 6, 5, 3), (e, 4, 2, 2)): [(0, 0, 0, 0), (0, 1, 1, 1)],
            ((4, 6, 5), (4, 4, 2)): [(0, 0, 0), (0, 1, 1), (1, 0, 0), (2, 0, 0)],
            ((4, 6, 5), (2, 4, 2)): [(0, 0, 0), (1, 1, 1)],
            ((8, 6, 5), (1, 4, 2)): [(0, 0, 0), (1, 1, 1), (8, 0, 0)],
        }
        for (extents, box), places in of.items():
            inner = max(interleave, extents[0] * 2)
            made = tensor(UINT16, extents, box, swizzle, interleave=interleave, inner=inner)
            yield from (Case(made, at) for at in places)
        for dtype, side, steps, y in ((UINT8, 2 * e, (), 1), (UINT32, e // 2, (), 1), (UINT16, e, (1, 2, 1), 0),
                                      (UINT16, e, (2, 1, 1), 0)):  # fmt: skip
            yield Case(tensor(dtype, (side, 6, 5), (side, 4, 2), swizzle, interleave=interleave, inner=interleave,
                              steps=steps), (0, y, 0))  # fmt: skip


def _group(name: str, kind: str, cases: Iterator[Case], op: str = "", special: bool = False) -> Group:
    return Group(name, kind, tuple(cases), op, special)


def groups() -> tuple[Group, ...]:
    return (
        _group("ranks", "load", _ranks()),
        _group("swizzles", "load", _swizzles()),
        _group("types", "load", _types(False), special=True),
        _group("types, NaN outside", "load", _types(True), special=True),
        _group("element strides", "load", _strides()),
        _group("stores", "store", _stores()),
        *(_group(f"reduction {op}", "store", _reduced(op), op) for op in ("add", "min", "max", "and", "or", "xor")),
        *(_group(f"reduction {op}", "store", _reduced(op), op) for op in ("inc", "dec")),
        _group("im2col", "load", (c for c in _im2col())),
        _group("im2col stores", "store", _stores_im2col()),
        _group("interleaved", "load", _interleaved()),
        _group("rules of tiled maps", "load", (c for c in _refused() if c.map.im2col is None)),
        _group("rules of im2col maps", "load", (c for c in _refused() if c.map.im2col is not None)),
    )
