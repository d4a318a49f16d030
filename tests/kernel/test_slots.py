"""Slot addresses: arithmetic that keeps the slot, packing that remembers it, and arithmetic that is refused."""

from __future__ import annotations

import operator
import struct
from typing import Any

import pytest

from gemmsmith.kernel.slots import Slot, SlotAddress, SlotBytes, pack, packs_lost_slot

ADDRESSES = (0x7F00_0000_1010, 0x7F00_0000_2000, 0x7F00_0000_3000, 0, 0x7F00_0001_0000)


def test_an_address_keeps_its_slot_when_it_is_moved() -> None:
    a = SlotAddress(Slot.A, 0x10)
    for moved in (a + 256, 256 + a, a + 512 - 256):
        assert isinstance(moved, SlotAddress)
        assert (moved.slot, moved.offset, moved % 256) == (Slot.A, 256, 0x10)
    assert (a + 256) - a == 256
    assert not isinstance((a + 256) - a, SlotAddress)
    below = a - a % 32
    assert isinstance(below, SlotAddress)
    assert (below.offset, below % 32) == (-0x10, 0)


@pytest.mark.parametrize("divisor", [1, 2, 16, 32, 256])
def test_the_alignment_is_known(divisor: int) -> None:
    for offset in (0, 8, 300):
        assert (SlotAddress(Slot.B, 0x18) + offset) % divisor == (0x18 + offset) % divisor


@pytest.mark.parametrize("unknown", [
    lambda a: a % 512, lambda a: a // 16, lambda a: a * 2, lambda a: -a, lambda a: a & 15, lambda a: a | 1,
    lambda a: a >> 4, lambda a: 4096 - a, lambda a: a - SlotAddress(Slot.B),
])  # fmt: skip
def test_arithmetic_that_needs_the_address_is_refused(unknown: Any) -> None:
    with pytest.raises(TypeError):
        unknown(SlotAddress(Slot.A))


LAYOUTS = ["<QQqqqIIIIIIII", "<QqqQiii4x", "<QqqQQQIIIIIxxxx", "<QQqqqqIIIIIHH", "<Q", "<i2QH3x8sQ"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_packed_bytes_are_those_of_struct_once_filled(layout: str) -> None:
    expanded = layout.removeprefix("<").replace("2Q", "QQ").replace("8s", "s")
    codes = [code for code in expanded if code not in "x0123456789"]
    slots = [SlotAddress(slot, ADDRESSES[slot] % 256) + 256 * slot for slot in (Slot.A, Slot.B, Slot.WORKSPACE)]
    remaining = iter(slots)
    values = [next(remaining, 77) if code == "Q" else b"text" if code == "s" else 5 for code in codes]
    known = [ADDRESSES[v.slot] + v.offset if isinstance(v, SlotAddress) else v for v in values]
    packed = pack(layout, *values)
    assert isinstance(packed, SlotBytes)
    assert packed.filled(ADDRESSES) == struct.pack(layout, *known)
    assert type(packed.filled(ADDRESSES)) is bytes
    assert not packs_lost_slot(packed)


def test_known_values_are_packed_by_struct() -> None:
    packed = pack("<QQi", 1, 2, 3)
    assert type(packed) is bytes
    assert packed == struct.pack("<QQi", 1, 2, 3)


@pytest.mark.parametrize("slot", Slot)
def test_a_slot_address_that_struct_packed_is_found(slot: Slot) -> None:
    lost = struct.pack("<QqQ", 7, -1, SlotAddress(slot, 255) + 2**40)
    assert packs_lost_slot(lost)
    assert not packs_lost_slot(struct.pack("<QqQ", 7, -1, 2**57 - 1))


def test_messages_name_the_slot() -> None:
    assert f"{SlotAddress(Slot.A, 1):#x} {SlotAddress(Slot.WORKSPACE) + 512!r}" == "A+0x1 WORKSPACE+0x200"


def test_slots_are_ordered_as_addresses_are_filled() -> None:
    assert [slot.name for slot in Slot] == ["A", "B", "C", "BIAS", "WORKSPACE"]
    assert operator.index(Slot.WORKSPACE) == 4
