"""Which element of a matrix each lane of a warp holds in which register: the layouts of PTX's matrix instructions.

For mma.sync with 16 rows and 8 columns, one rule covers the documented tables of all element types. With E elements in
a 32-bit register, lane g·4 + t holds, at position e of a register:

* A: row g (+8 in odd registers), column t·E + e (+4E in the upper half of the registers);
* B: row t·E + e (+4E in the second register), column g;
* C and D: row g (+8 in the upper two of four registers), column 2t (+1 in odd registers).

ldmatrix gives lane g·4 + t the elements 2t and 2t + 1 of row g of an 8×8 matrix of 16-bit elements; transposed, those
rows of column g.
"""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.types import Array
from gemmsmith.sim.wave import WARP

ROWS, COLUMNS = 16, 8  # of an mma.sync of any type here


def a_matrices(registers: Array, size: int) -> Array:
    """A as (K, 16, n) elements of ``size`` bytes, from words (registers, n, 32)."""
    each = 4 // size
    count, n, _ = registers.shape
    parts = _elements(registers, size).reshape(count // 2, 2, n, 8, 4, each)
    return parts.transpose(0, 4, 5, 1, 3, 2).reshape(2 * count * each, ROWS, n)


def b_matrices(registers: Array, size: int) -> Array:
    """B as (K, 8, n) elements of ``size`` bytes, from words (registers, n, 32)."""
    each = 4 // size
    count, n, _ = registers.shape
    parts = _elements(registers, size).reshape(count, n, 8, 4, each)
    return parts.transpose(0, 3, 4, 2, 1).reshape(4 * count * each, COLUMNS, n)


def c_matrices(registers: Array) -> Array:
    """C as words (16, 8, n), from words (4, n, 32)."""
    n = registers.shape[1]
    return registers.reshape(2, 2, n, 8, 4).transpose(0, 3, 4, 1, 2).reshape(ROWS, COLUMNS, n)


def d_registers(matrices: Array) -> Array:
    """Words (4, n, 32) of D, from words (16, 8, n)."""
    n = matrices.shape[2]
    return matrices.reshape(2, 8, 4, 2, n).transpose(0, 3, 4, 1, 2).reshape(4, n, WARP)


def matrix_registers(rows: Array, transposed: bool) -> Array:
    """What ldmatrix puts in registers, words (…, 32), of rows (…, 8, 8) of 16-bit elements."""
    if transposed:
        rows = np.ascontiguousarray(rows.swapaxes(-1, -2))
    return rows.view(np.uint32).reshape(*rows.shape[:-2], WARP)


def matrix_rows(registers: Array, transposed: bool) -> Array:
    """The rows (…, 8, 8) of 16-bit elements that stmatrix writes of words (…, 32)."""
    rows = np.ascontiguousarray(registers).view(np.uint16).reshape(*registers.shape[:-1], 8, 8)
    return np.ascontiguousarray(rows.swapaxes(-1, -2)) if transposed else rows


def _elements(registers: Array, size: int) -> Array:
    return np.ascontiguousarray(registers).view(f"u{size}")
