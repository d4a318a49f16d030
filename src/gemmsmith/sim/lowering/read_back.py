"""Products that are stored, loaded again, and then decide what is executed: where data do not move, nobody knows them.

A store of a product writes a mark instead of a value. A load that something depends on (a branch, an address, a wait)
refuses the mark. Who runs the kernel can then have everything computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.errors import UnsupportedError
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.memory.global_memory import RAW
from gemmsmith.sim.ptx.types import Array

_MARK = bytes.fromhex("dec0ed7f")  # 0x7fedc0de, a NaN in fp32, and in fp16 in its upper half
_NARROW = 2  # bytes: of an element of this size the mark is its upper half; smaller ones get none


class ProductReadBackError(UnsupportedError):
    """A product that was not computed decides what is executed."""


@dataclass(frozen=True)
class ReadBack:
    """Positions of stores whose values come from products, and of loads from the same memories that decide."""

    stores: frozenset[int] = frozenset()
    loads: frozenset[int] = frozenset()


def marked(read_back: ReadBack, operations: Sequence[Operation[Any]], values: Array, width: int) -> Array:
    """What a bundle of stores writes: the mark for products, the rest as it is. One row for each operation."""
    products = [operation.position in read_back.stores for operation in operations]
    if not any(products) or width < _NARROW:
        return values
    rows = np.array(values, copy=True).reshape(len(operations), -1)
    rows[products] = np.frombuffer(_mark(width), RAW[width])[0]
    return rows.reshape(values.shape)


def check_unmarked(read_back: ReadBack, operations: Sequence[Operation[Any]], raw: Array) -> None:
    """Raise where a load that decides has read a product."""
    first = next((o for o in operations if o.position in read_back.loads), None)
    if first is None or raw.dtype.itemsize < _NARROW:
        return
    words = np.ascontiguousarray(raw).reshape(-1).view(np.uint32 if raw.dtype.itemsize >= len(_MARK) else np.uint16)
    whole = np.frombuffer(_mark(words.dtype.itemsize), words.dtype)[0]
    halves = np.frombuffer(2 * _mark(_NARROW), np.uint32)[0] if words.dtype.itemsize == len(_MARK) else whole
    if ((words == whole) | (words == halves)).any():
        raise ProductReadBackError(
            f"what it executes depends on its data: {first.instruction.where} loads a product that was stored before, "
            "and branches on it or uses it as an address"
        )


def _mark(width: int) -> bytes:
    return _MARK[-width:] if width < len(_MARK) else _MARK * (width // len(_MARK))
