"""Which element of a matrix each lane of a warp holds in which register: the layouts of PTX's matrix instructions.

For mma.sync with 8 columns, one rule covers the documented tables of all element types. With E elements in a register,
lane g·4 + t holds, at position e of a register:

* A of 16 rows: row g (+8 in odd registers), column t·E + e (+4E in each further pair of registers);
* A of 8 rows: row g, column t·E + e;
* B: row t·E + e (+4E in each further register), column g;
* C and D: row g (+8 in the upper half of the registers), column 2t, and 2t + 1 in the next element.

mma.sync m8n8k4 of fp16 is four products, one for each pair of quads of lanes, with tables of its own.

ldmatrix gives lane g·4 + t the elements 2t and 2t + 1 of row g of an 8×8 matrix of 16-bit elements; transposed, those
rows of column g.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP

COLUMNS = 8  # of an mma.sync of any type here


def a_matrices(registers: Array, size: int, rows: int = 16) -> Array:
    """A as (K, rows, n) elements of ``size`` bytes, from words (registers, n, 32)."""
    if rows == COLUMNS:
        return b_matrices(registers, size)
    each = registers.dtype.itemsize // size
    count, n, _ = registers.shape
    parts = _elements(registers, size).reshape(count // 2, 2, n, 8, 4, each)
    return parts.transpose(0, 4, 5, 1, 3, 2).reshape(2 * count * each, rows, n)


def b_matrices(registers: Array, size: int) -> Array:
    """B as (K, 8, n) elements of ``size`` bytes, from words (registers, n, 32)."""
    each = registers.dtype.itemsize // size
    count, n, _ = registers.shape
    parts = _elements(registers, size).reshape(count, n, 8, 4, each)
    return parts.transpose(0, 3, 4, 2, 1).reshape(4 * count * each, COLUMNS, n)


def c_matrices(registers: Array, size: int = 4) -> Array:
    """C as (rows, 8, n) elements of ``size`` bytes, from words (registers, n, 32)."""
    each = registers.dtype.itemsize // size
    count, n, _ = registers.shape
    halves = count * each // 2
    parts = _elements(registers, size).reshape(halves, 2 // each, n, 8, 4, each)
    return parts.transpose(0, 3, 4, 1, 5, 2).reshape(8 * halves, COLUMNS, n)


def d_registers(matrices: Array) -> Array:
    """Words (registers, n, 32) of D, from elements (rows, 8, n)."""
    rows, _, n = matrices.shape
    word = _word(matrices.dtype.itemsize)
    each, halves = word.itemsize // matrices.dtype.itemsize, rows // 8
    parts = matrices.reshape(halves, 8, 4, 2 // each, each, n).transpose(0, 3, 5, 1, 2, 4)
    return np.ascontiguousarray(parts).view(word).reshape(rows // 4 // each, n, WARP)


# -- m8n8k4 of fp16 -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuadPairs:
    """Where an 8×8 or 8×4 matrix of each of a warp's four products is: lane and element (4, rows, columns)."""

    lane: Array
    element: Array

    def matrices(self, registers: Array, size: int) -> Array:
        """(n, 4, rows, columns) elements of ``size`` bytes, from words (registers, n, 32)."""
        count, n, _ = registers.shape
        parts = _elements(registers, size).reshape(count, n, WARP, -1).transpose(1, 2, 0, 3).reshape(n, WARP, -1)
        return parts[:, self.lane, self.element]

    def registers(self, matrices: Array) -> Array:
        """The reverse of ``matrices``."""
        n, size = len(matrices), matrices.dtype.itemsize
        parts = np.empty((n, WARP, int(self.element.max()) + 1), matrices.dtype)
        parts[:, self.lane, self.element] = matrices
        words = parts.view(_word(size)).reshape(n, WARP, -1)
        return np.ascontiguousarray(words.transpose(2, 0, 1))


@cache
def quad_pairs(matrix: str, by_rows: bool = True, size: int = 2) -> QuadPairs:
    """The tables for A, B, or C and D (of ``size`` bytes); ``by_rows`` is the layout of A or B."""
    lane, i = np.meshgrid(np.arange(WARP), np.arange({"a": 4, "b": 4, "c": 8}[matrix]), indexing="ij")
    upper, member, product = 4 * (lane >= 16), lane % 4, lane // 4 % 4
    if matrix == "c" and size == 4:
        row, column = (lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1)
    elif matrix == "b":
        row, column = (member, i + upper) if by_rows else (i, member + upper)
    else:
        row, column = (member + upper, i) if by_rows else (i + upper, member)
    shape = 4, int(row.max()) + 1, int(column.max()) + 1
    lanes, elements = np.empty(shape, np.intp), np.empty(shape, np.intp)
    lanes[product, row, column], elements[product, row, column] = lane, i
    return QuadPairs(lanes, elements)


# -- 8×8 matrices of ldmatrix -------------------------------------------------------------------------


def matrix_registers(rows: Array, transposed: bool) -> Array:
    """What ldmatrix puts in registers, words (…, 32), of rows (…, 8, 8) of 16-bit elements."""
    if transposed:
        rows = np.ascontiguousarray(rows.swapaxes(-1, -2))
    return rows.view(np.uint32).reshape(*rows.shape[:-2], WARP)


def matrix_rows(registers: Array, transposed: bool) -> Array:
    """The rows (…, 8, 8) of 16-bit elements that stmatrix writes of words (…, 32)."""
    rows = np.ascontiguousarray(registers).view(np.uint16).reshape(*registers.shape[:-1], 8, 8)
    return np.ascontiguousarray(rows.swapaxes(-1, -2)) if transposed else rows


def _word(size: int) -> np.dtype[np.unsignedinteger]:
    """The register that holds elements of ``size`` bytes."""
    return np.dtype(np.uint64 if size == 8 else np.uint32)


def _elements(registers: Array, size: int) -> Array:
    return np.ascontiguousarray(registers).view(f"u{size}")
