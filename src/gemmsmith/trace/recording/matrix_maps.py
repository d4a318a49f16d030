"""Which lane holds which element of a matrix instruction's operands, found by running the simulator's own layouts.

Every element of every register gets a number; the function that gathers a matrix from registers then says where each
number goes. Numbers need two bytes, and elements may have one, so it is done once for each byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gemmsmith.sim.memory.fragments import a_matrices, b_matrices, c_matrices, matrix_registers
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP


@dataclass(frozen=True)
class Held:
    """Where each element (rows, columns) of a matrix is: lane, register, and element within the register."""

    lane: Array
    register: Array
    element: Array

    def packed(self) -> tuple[int, ...]:
        """As in ``Fragment``: lane · 4096 + register · 16 + element, by rows."""
        found = self.lane * 4096 + self.register * 16 + self.element
        return tuple(found.reshape(-1).tolist())


def _held(registers: int, size: int, word: int, gather: Callable[[Array], Array], transposed: bool) -> Held:
    """``gather`` takes words (registers, 1, 32) and returns a matrix with a last axis of one."""
    each = word // size
    numbers = np.arange(registers * WARP * each).reshape(registers, 1, WARP, each)
    bytes_of = []
    for shift in (0, 8):
        low = np.zeros((*numbers.shape, size), np.uint8)
        low[..., 0] = numbers >> shift & 0xFF
        words = np.ascontiguousarray(low).reshape(registers, 1, WARP, word).view(f"u{word}")[..., 0]
        matrix = np.ascontiguousarray(gather(words)[..., 0])
        raw = matrix.view(np.uint8).reshape(*matrix.shape, -1)[..., 0]
        bytes_of.append(raw.astype(np.int64))
    found = bytes_of[0] | bytes_of[1] << 8
    if transposed:
        found = found.T
    return Held(found // each % WARP, found // each // WARP, found % each)


@cache
def mma_maps(registers: tuple[int, int, int, int], unit: int, accumulator: int, rows: int) -> tuple[Held, Held, Held]:
    """A (rows, K), B (K, 8) and D (rows, 8) of an mma.sync with 8 columns."""
    of_a, of_b, _, of_d = registers
    word = max(4, unit)
    a = _held(of_a, unit, word, lambda w: a_matrices(w, unit, rows), transposed=True)
    b = _held(of_b, unit, word, lambda w: b_matrices(w, unit), transposed=False)
    d = _held(of_d, accumulator, max(word if unit == 8 else 4, accumulator), lambda w: c_matrices(w, accumulator),
              transposed=False)  # fmt: skip
    return a, b, d


@cache
def wgmma_maps(columns: int, accumulator: int, size: int) -> tuple[Held, Held]:
    """A (16, K) in four registers and D (16, columns) of one warp's part of a wgmma."""
    a = _held(4, size, 4, lambda w: a_matrices(w, size), transposed=True)
    each = accumulator  # registers of eight columns
    one = _held(each, accumulator, 4, lambda w: c_matrices(w, accumulator), transposed=False)
    tiles = columns // 8
    lane = np.tile(one.lane, (1, tiles))
    register = np.concatenate([one.register + each * tile for tile in range(tiles)], axis=1)
    return a, Held(lane, register, np.tile(one.element, (1, tiles)))


@cache
def ldmatrix_bytes(transposed: bool) -> tuple[Array, Array]:
    """(row, byte of the row) of each byte (32 lanes, 4) of the register that an 8×8 matrix becomes."""
    rows = np.arange(64, dtype=np.uint16).reshape(1, 1, 1, 8, 8)
    found: Any = np.asarray(matrix_registers(rows, transposed=transposed)).reshape(WARP)
    elements = np.ascontiguousarray(found).view(np.uint16).reshape(WARP, 2).astype(np.int64)
    row, column = elements // 8, elements % 8
    return np.repeat(row, 2, axis=1), (2 * column[..., None] + np.arange(2)).reshape(WARP, 4)
