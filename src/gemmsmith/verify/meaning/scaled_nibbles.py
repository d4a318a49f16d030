"""How weights of four bits are packed, found by one launch: A is the unit matrix, so that C is what the kernel unpacks.

Each number that it unpacks must follow from one code of four bits. Where the places of these codes repeat from tile to
tile, and every code means the same number in nearly all places, that is the packing. A kernel that differs from it in
some places unpacks them wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.verify.meaning.scaled_storage import Encoding, Storage, codes_of

Array = NDArray[Any]
_CODES = 16
_TILES = (2, 4, 8, 16, 32, 64)  # numbers in one piece of memory, as far as their order is not that of all
_LEAST = 0.45  # of a place's numbers follow from its code: a wrong sign leaves half of them
_NOISE = 0.1
_CLEAR = 0.75  # of all numbers do
_USUAL: tuple[Callable[[Array], Array], ...] = (
    lambda code: (code ^ 8) - 8,
    lambda code: code - 8.0,
    lambda code: code - 7.0,
    lambda code: code * 1.0,
    lambda code: code - 1.0,
)


def packed_storage(array: Array, unpacked: Array) -> Storage | None:
    """How the codes of ``array`` make the K×N numbers that a kernel unpacks; None where no packing is clear."""
    codes = codes_of(array)
    if codes.size != unpacked.size or not np.isfinite(unpacked).all():
        return None
    for transposed, rows_in_tile, count in _tilings(unpacked.shape, 2 * array.itemsize):
        numbers = _pieces(unpacked.T if transposed else unpacked, rows_in_tile != transposed, count)
        own = codes.reshape(-1, count)
        order = _order(own, numbers)
        if order is None:
            continue
        placed = own[:, order]
        values = _values(placed, numbers)
        if values is None:
            continue
        tile = (count, 1) if rows_in_tile else (1, count)
        encoding = Encoding(array.dtype, array.dtype, tuple(map(float, values)), _sure(values, placed, numbers))
        found = Storage(encoding, transposed, tile, tuple(map(int, order)))
        equal = found.matrix(array, *unpacked.shape) == unpacked
        if max(equal.all(axis=0).mean(), equal.all(axis=1).mean()) >= 1 / 2:  # whole rows or columns are right
            return found
    return None


def _tilings(shape: tuple[int, ...], word: int) -> Iterator[tuple[bool, bool, int]]:
    """Whether tiles follow one another along columns, whether one is a part of a column, and its size; the smallest
    first. Numbers of one word lie together."""
    for count in (each for each in _TILES if each >= word or each == _TILES[0]):
        for transposed in (False, True):
            for rows_in_tile in (True, False):
                if shape[0 if rows_in_tile else 1] % count == 0:
                    yield transposed, rows_in_tile, count


def _pieces(numbers: Array, down: bool, count: int) -> Array:
    """A matrix whose tiles follow along its rows, tile by tile: each is ``count`` numbers of a column (``down``), or of
    a row."""
    rows, columns = numbers.shape
    if not down:
        return numbers.reshape(-1, count)
    return numbers.reshape(rows // count, count, columns).transpose(0, 2, 1).reshape(-1, count)


def _order(codes: Array, numbers: Array) -> Array | None:
    """For each number of a tile the code that it follows from; None where some follow from none, or two from one."""
    count = codes.shape[1]
    found = np.empty(count, np.int64)
    for place in range(count):
        shares = [_share(codes[:, each], numbers[:, place]) for each in range(count)]
        found[place] = int(np.argmax(shares))
        if max(shares) < _LEAST:
            return None
    return found if np.unique(found).size == count else None


def _share(codes: Array, numbers: Array) -> float:
    """The share of numbers that are the most frequent one of their code."""
    equal = 0
    for code in range(_CODES):
        own = numbers[codes == code]
        equal += int(np.unique(own, return_counts=True)[1].max(initial=0))
    return equal / max(1, numbers.size)


def _values(codes: Array, numbers: Array) -> Array | None:
    """The number that each code means: a usual one where that gives most, else what all places agree on."""
    usual = [np.asarray(way(np.arange(_CODES)), np.float64) for way in _USUAL]
    equal = [values[codes] == numbers for values in usual]
    best = max(range(len(usual)), key=lambda each: float(equal[each].mean()))
    if equal[best].mean() >= _CLEAR and equal[best].mean(axis=0).min() >= _LEAST:
        return usual[best]
    values = np.zeros(_CODES)
    for code in range(_CODES):
        own = np.unique(numbers[codes == code])
        if own.size != 1:
            return None
        values[code] = own[0]
    return values if np.unique(values).size > _CODES // 2 else None


def _sure(values: Array, codes: Array, numbers: Array) -> tuple[int, ...]:
    """The codes that are unpacked best, where not all numbers are those of their codes."""
    equal = values[codes] == numbers
    if equal.all():
        return ()
    shares = [float(equal[codes == code].mean()) for code in range(_CODES)]
    return tuple(code for code in range(_CODES) if shares[code] >= max(shares) - _NOISE)
