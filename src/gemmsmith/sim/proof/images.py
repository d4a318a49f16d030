"""The image of a value: its element of the field, the tree of its arithmetic, and a tag.

Registers and memory are watched in units of 1, 2 or 4 bytes. The tag of a unit says what number it is a part of; 0 is
a plain unit, whose real bits are all there is to know. An fp32 number in units of 2 bytes has its image in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from gemmsmith.sim.ptx.types import Array


class Kind(IntEnum):
    """The format of a number that has an image."""

    F16 = 1
    BF16 = 2
    F32 = 3
    F64 = 4
    S8 = 5
    U8 = 6
    I16 = 7
    I32 = 8
    I64 = 9
    LOST = 15  # no sum of products any more; the element is the number of the reason


BYTES = {Kind.F16: 2, Kind.BF16: 2, Kind.F32: 4, Kind.F64: 8, Kind.S8: 1, Kind.U8: 1, Kind.I16: 2, Kind.I32: 4,
         Kind.I64: 8, Kind.LOST: 1}  # fmt: skip
NAMES = {Kind.F16: "f16", Kind.BF16: "bf16", Kind.F32: "f32", Kind.F64: "f64", Kind.S8: "s8", Kind.U8: "u8",
         Kind.I16: "i16", Kind.I32: "i32", Kind.I64: "i64"}  # fmt: skip
WHOLE = frozenset({Kind.S8, Kind.U8, Kind.I16, Kind.I32, Kind.I64})
KINDS = {"f16": Kind.F16, "bf16": Kind.BF16, "f32": Kind.F32, "tf32": Kind.F32, "f64": Kind.F64, "s8": Kind.S8,
         "u8": Kind.U8, "s16": Kind.I16, "u16": Kind.I16, "s32": Kind.I32, "u32": Kind.I32, "s64": Kind.I64,
         "u64": Kind.I64, "f16x2": Kind.F16, "bf16x2": Kind.BF16}  # fmt: skip

# A tag: the part of a number (3 bits), its kind (4 bits), whether matrices are in it (1 bit), its degree (8 bits).
PART, DATA, KIND_SHIFT, DEGREE_SHIFT = np.uint16(7), np.uint16(1 << 7), np.uint16(3), np.uint16(8)
FORMAT = np.uint16(0x7F)  # part and kind
_MOST_DEGREE = 255


def tag_of(kind: Kind, data: bool, degree: int = 1) -> np.uint16:
    return np.uint16(kind << 3 | data << 7 | degree << 8)


def retagged(tag: Array, kind: Kind) -> Array:
    """The tags of numbers that became ``kind``; plain ones stay plain, and lost ones lost."""
    new: Array = (tag & ~FORMAT) | np.uint16(kind << 3)
    return np.where((tag == 0) | (tag >> KIND_SHIFT & 15 == Kind.LOST), tag, new)


def part_of(tag: Array, part: int) -> Array:
    """The tags of one unit of numbers; of what is plain or lost, all units are alike."""
    return np.where((tag == 0) | (tag >> KIND_SHIFT & 15 == Kind.LOST), tag, tag | np.uint16(part))


def summed(tags: list[Array], kind: Kind) -> Array:
    """The tag of a sum: the highest degree."""
    degree = tags[0] >> DEGREE_SHIFT
    data = tags[0] & DATA
    for tag in tags[1:]:
        degree = np.maximum(degree, tag >> DEGREE_SHIFT)
        data = data | (tag & DATA)
    return _joined(degree, data, kind)


def multiplied(a: Array, b: Array, kind: Kind) -> Array:
    """The tag of a product: the sum of the degrees."""
    degree = np.minimum((a >> DEGREE_SHIFT) + (b >> DEGREE_SHIFT), np.uint16(_MOST_DEGREE))
    return _joined(degree, (a | b) & DATA, kind)


def _joined(degree: Array, data: Array, kind: Kind) -> Array:
    tag: Array = (degree << DEGREE_SHIFT) | data | np.uint16(kind << 3)
    return np.where(degree == 0, np.uint16(0), tag)


@dataclass(frozen=True, slots=True)
class Image:
    """Tags, elements and trees of an array of numbers."""

    tag: Array
    element: Array
    tree: Array

    @property
    def plain(self) -> bool:
        """Whether there are constants among them."""
        return not bool(self.tag.all())

    def at(self, index: Any) -> Image:
        return Image(self.tag[index], self.element[index], self.tree[index])

    def broadcast(self, shape: tuple[int, ...]) -> Image:
        return Image(*(np.broadcast_to(x, shape) for x in (self.tag, self.element, self.tree)))


def where(mask: Array, a: Image, b: Image) -> Image:
    return Image(np.where(mask, a.tag, b.tag), np.where(mask, a.element, b.element), np.where(mask, a.tree, b.tree))


def blank(shape: tuple[int, ...]) -> Image:
    """Plain units."""
    return Image(np.zeros(shape, np.uint16), np.zeros(shape, np.uint64), np.zeros(shape, np.uint64))


class Cells:
    """The images of a memory, unit by unit; nothing is kept until there is something to keep."""

    def __init__(self, units: int) -> None:
        self.units = units
        self.content: Image | None = None

    def read(self, index: Array) -> Image | None:
        """Of these units; None if all are plain."""
        if self.content is None:
            return None
        tag = self.content.tag[index]
        return Image(tag, self.content.element[index], self.content.tree[index]) if tag.any() else None

    def write(self, index: Array, image: Image | None) -> None:
        """The image of these units; None makes them plain."""
        if self.content is None:
            if image is None:
                return
            self.content = blank((self.units,))
        if image is None:
            self.content.tag[index] = 0
            return
        self.content.tag[index], self.content.element[index], self.content.tree[index] = (
            image.tag, image.element, image.tree)  # fmt: skip
