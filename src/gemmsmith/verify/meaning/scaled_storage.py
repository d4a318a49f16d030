"""How the numbers of a matrix lie in an array: in which type or bits, and in which order.

A tile of the matrix lies in one piece: one number, four bytes of an integer for ``dp4a``, eight numbers of four bits
in a word. Tiles follow one another along rows, or along columns where the matrix is stored transposed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from gemmsmith.verify.meaning.scaled_data import elements

Array = NDArray[Any]
_BF16, _E4M3, _E5M2 = (np.dtype(kind) for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))
# What integers may hold instead of themselves, the likeliest first.
_HELD: dict[str, tuple[np.dtype[Any], ...]] = {
    "uint16": (_BF16, np.dtype(np.float16)),
    "int16": (_BF16, np.dtype(np.float16)),
    "uint8": (_E4M3, _E5M2),
    "int8": (_E4M3, _E5M2),
    "int32": (np.dtype(np.int8), np.dtype(np.uint8)),
    "uint32": (np.dtype(np.int8), np.dtype(np.uint8)),
}
_OF_BITS = 4
_MOST_BITS = 8  # of fp8's small numbers: those without an exponent among them


@dataclass(frozen=True)
class Encoding:
    """What an array holds: numbers of ``kind``, whatever its own type is; or codes of four bits, of which ``codes`` has
    the values. ``sure``: codes that a kernel unpacks in every place as it should, where it does not all of them."""

    array: np.dtype[Any]
    kind: np.dtype[Any]
    codes: tuple[float, ...] = ()
    sure: tuple[int, ...] = ()

    @property
    def per_element(self) -> float:
        """Numbers in one element of the array."""
        return 8 / _OF_BITS * self.array.itemsize if self.codes else self.array.itemsize / self.kind.itemsize

    @property
    def is_plain(self) -> bool:
        return self.array == self.kind and not self.codes

    @property
    def is_fp8(self) -> bool:
        return self.kind in (_E4M3, _E5M2)

    def filled(self, rng: np.random.Generator, count: int, most: int) -> Array:
        """An array of ``count`` numbers: small ones whose sums are exact, or of the whole range up to ``most``."""
        if self.codes:
            return rng.integers(0, 256, math.ceil(count / 2)).astype(np.uint8).view(self.array)
        return elements(rng, count, self.kind, most).view(self.array)

    def surest(self, array: Array) -> Array:
        """An array of as many elements, of numbers that are unpacked as they should be: one code fills each element."""
        if not self.sure:
            return array
        chosen = np.asarray(self.sure, np.uint8)[codes_of(array) % len(self.sure)]
        first = chosen.reshape(array.size, -1)[:, :1]
        return np.repeat(first * 17, array.itemsize, axis=1).astype(np.uint8).view(self.array).reshape(-1)

    def tiny(self, rng: np.random.Generator, count: int) -> Array:
        """An array of the smallest numbers of either sign, as fp8 has them without an exponent and with small ones."""
        codes = rng.integers(0, 2 * _MOST_BITS, count) | rng.integers(0, 2, count) << 7
        return codes.astype(np.uint8).view(self.array)

    def numbers(self, array: Array) -> Array:
        """All numbers of an array, in the order of their bits."""
        if self.codes:
            return np.asarray(self.codes)[codes_of(array)]
        return np.asarray(array).view(self.kind).astype(np.float64)


@dataclass(frozen=True)
class Storage:
    """How a matrix lies in an array. ``tile``: its rows and columns; ``order``: the places of its numbers, row by row,
    in the piece of memory that it is."""

    encoding: Encoding
    transposed: bool
    tile: tuple[int, int] = (1, 1)
    order: tuple[int, ...] = (0,)

    def elements(self, rows: int, columns: int) -> int:
        """Elements of the array."""
        return math.ceil(rows * columns / self.encoding.per_element)

    @property
    def words(self) -> int:
        """How many numbers a word of a line has, where words hold several; else 1."""
        return max(1, int(self.encoding.per_element)) if self.tile == (1, 1) and not self.encoding.codes else 1

    def line(self, rows: int, columns: int) -> int:
        """From one line of the matrix to the next, in elements of the array."""
        return -(-(rows if self.transposed else columns) // self.words)

    def matrix(self, array: Array, rows: int, columns: int) -> Array:
        """The numbers of rows × columns, of which both are multiples of the tile's."""
        flat = self.encoding.numbers(array)[: rows * columns]
        down, across = self.tile
        grid = (columns // across, rows // down) if self.transposed else (rows // down, columns // across)
        tiles = flat.reshape(*grid, down * across)[..., list(self.order)].reshape(*grid, down, across)
        first, second = (1, 0) if self.transposed else (0, 1)
        whole: Array = tiles.transpose(first, 2, second, 3).reshape(rows, columns)
        return whole

    def text(self, name: str) -> str:
        """What the report says of an array that does not hold plain numbers of its type; empty for others."""
        if self.encoding.codes:
            down, across = self.tile
            along = f"{down} rows of a column" if across == 1 else f"{across} columns of a row"
            low, high = (f"{self.encoding.codes[code]:g}" for code in (0, -1))
            return f"{name} holds numbers of 4 bits (0 is {low}, 15 is {high}), {along} in one piece"
        return "" if self.encoding.is_plain else f"{name} holds {self.encoding.kind}"


def codes_of(array: Array) -> Array:
    """Each four bits of an array, from its lowest on."""
    raw = np.ascontiguousarray(array).view(np.uint8)
    return np.stack((raw & 15, raw >> 4), axis=-1).reshape(-1).astype(np.int64)


def encodings(kind: np.dtype[Any]) -> tuple[Encoding, ...]:
    """What arrays of a type may hold, themselves first; integers of 16 and 32 bits seldom are factors."""
    held = tuple(Encoding(kind, each) for each in _HELD.get(str(kind), ()))
    plain = Encoding(kind, kind)
    return (*held, plain) if kind.itemsize > 1 and held else (plain, *held)


def storages(encoding: Encoding, operand: str) -> Iterator[Storage]:
    """The orders in which numbers of a type usually lie: rows or columns one after another, or, of bytes, words of four
    along K."""
    yield from (Storage(encoding, transposed) for transposed in (False, True))
    if encoding.kind.itemsize == 1:
        tile = (1, 4) if operand == "A" else (4, 1)
        yield Storage(encoding, operand == "A", tile, tuple(range(4)))
