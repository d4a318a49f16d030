"""Addresses that are filled in later.

The launches of a call are planned once and then run at many addresses. While they are planned, A, B, C, the bias and
the workspace are slots: what is known of a slot's address is its alignment. Arguments packed from slot addresses
remember where each address belongs, so that a new set of addresses is a fill-in.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import Any, NoReturn

ALIGNMENT_CLASS = 256  # bytes: nothing in a plan depends on an address beyond its remainder by this
# Slot addresses are numbers above every GPU's address space (2^57), so that one packed by mistake is recognised.
_TAG = 0x5107
_TAG_SHIFT, _SLOT_SHIFT = 48, 44


class Slot(IntEnum):
    """What an address is relative to; also its position among the addresses that fill a plan."""

    A = 0
    B = 1
    C = 2
    BIAS = 3
    WORKSPACE = 4


class SlotAddress(int):
    """``offset`` bytes into ``slot``, whose start is ``alignment`` bytes past a multiple of 256.

    It is an int so that the code that lays out a workspace works on known and on unknown addresses. It can be moved by
    bytes, compared within its slot, and divided by an alignment; all other arithmetic raises, because it would lose
    the slot.
    """

    slot: Slot
    alignment: int
    offset: int

    def __new__(cls, slot: Slot, alignment: int = 0, offset: int = 0) -> SlotAddress:
        start = (_TAG << _TAG_SHIFT) + (slot << _SLOT_SHIFT) + (1 << (_SLOT_SHIFT - 1))
        made = super().__new__(cls, start + alignment + offset)
        made.slot, made.alignment, made.offset = slot, alignment, offset
        return made

    def __add__(self, nbytes: int) -> SlotAddress:
        return SlotAddress(self.slot, self.alignment, self.offset + int(nbytes))

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        if not isinstance(other, SlotAddress):
            return self + -other
        if other.slot != self.slot:
            raise TypeError(f"no distance is known from {other!r} to {self!r}")
        return int(self) - int(other)

    def __mod__(self, divisor: int) -> int:
        if ALIGNMENT_CLASS % divisor:
            raise TypeError(f"the remainder of {self!r} by {divisor} is not known")
        return int(self) % divisor

    def _unknown(self, *_: object) -> NoReturn:
        raise TypeError(f"{self!r} has no value yet")

    __mul__ = __rmul__ = __floordiv__ = __truediv__ = __rsub__ = __neg__ = _unknown
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = _unknown

    def __repr__(self) -> str:
        return f"{self.slot.name}+{self.alignment + self.offset:#x}"

    def __format__(self, spec: str) -> str:
        return repr(self)


class SlotBytes(bytes):
    """A packed argument with zeros where addresses belong, and these by their position."""

    slots: tuple[tuple[int, SlotAddress], ...]

    def filled(self, addresses: Sequence[int]) -> bytes:
        """The argument for ``addresses``, in the order of ``Slot``."""
        data = bytearray(self)
        for position, each in self.slots:
            _ADDRESS.pack_into(data, position, addresses[each.slot] + each.offset)
        return bytes(data)


_ADDRESS = struct.Struct("<Q")


def pack(layout: str, *values: Any) -> bytes:
    """``struct.pack``; ``SlotBytes`` where slot addresses are among the values."""
    known = struct.pack(layout, *(0 if isinstance(value, SlotAddress) else value for value in values))
    slots = tuple((at, value) for at, value in zip(_positions(layout), values, strict=True)
                  if isinstance(value, SlotAddress))  # fmt: skip
    if not slots:
        return known
    packed = SlotBytes(known)
    packed.slots = slots
    return packed


def with_address(packed: bytes, position: int, address: SlotAddress) -> SlotBytes:
    """A packed argument with one more address in it."""
    made = SlotBytes(packed)
    made.slots = (*getattr(packed, "slots", ()), (position, address))
    return made


@cache
def _positions(layout: str) -> tuple[int, ...]:
    """Where each value begins in a little-endian layout without implicit padding."""
    found: list[int] = []
    end = 0
    for digits, code in re.findall(r"(\d*)([a-zA-Z?])", layout.removeprefix("<")):
        count = int(digits or 1)
        if code == "s":
            found.append(end)
        elif code != "x":
            found += [end + i * struct.calcsize(f"<{code}") for i in range(count)]
        end += struct.calcsize(f"<{digits}{code}")
    return tuple(found)


def packs_lost_slot(argument: bytes) -> bool:
    """Whether a slot address was packed as if it were a known one."""
    words = struct.iter_unpack("<Q", argument[: len(argument) // 8 * 8])
    return any(word >> _TAG_SHIFT == _TAG for (word,) in words)
