"""Sparse A of mma.sp and wgmma.mma_async.sp: half of its elements are stored, and metadata say where they belong.

Of each four neighbours along K two are stored, with two bits of metadata each; tf32 stores one of two, which counts as
two halves of 16 bits; 4-bit integers are stored by pairs, which are bytes. A row's metadata are 16, 32 or 64 bits, the
lowest for the lowest k. Lane g·4 + t of a warp holds those of rows g and g + 8:

* 16 bits a row: lane t = selector has row g in its lower half, row g + 8 in its upper;
* 32 bits a row of elements of 16 and 32 bits: lanes t = 2·selector and the next, in each of them a half as above;
* 32 bits a row of smaller elements: lane t = 2·selector has row g, the next lane row g + 8;
* 64 bits a row: lanes 0 and 1 have the lower half of rows g and g + 8, lanes 2 and 3 the upper half.
"""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.arithmetic.matrix_arithmetic import Matrix
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP

ROWS = 16
_GROUP = 4  # neighbours of which two are stored
_TF32_CODES = (0b0100, 0b1110)  # the lower and the upper one of two


def row_metadata(words: Array, row_bits: int, size: int, selector: int) -> Array:
    """The metadata of each row (n, 16) as 64-bit words, from a register's words (n, 32)."""
    quads = words.reshape(-1, WARP // 4, 4).astype(np.uint64)
    low, high = np.uint64(0xFFFF), np.uint64(16)
    if row_bits == 16:
        own = quads[:, :, selector]
        return np.concatenate([own & low, own >> high], axis=1)
    if row_bits == 64:
        upper = np.uint64(32)
        return np.concatenate([quads[:, :, row] | quads[:, :, row + 2] << upper for row in (0, 1)], axis=1)
    first, second = quads[:, :, 2 * selector], quads[:, :, 2 * selector + 1]
    if size == 1:
        return np.concatenate([first, second], axis=1)
    return np.concatenate([first & low | (second & low) << high, first >> high | second >> high << high], axis=1)


def positions(rows: Array, row_bits: int, tf32: bool, ordered: bool) -> Array:
    """Where along K the stored elements belong: (K/2, 16, n), from the metadata of rows (n, 16)."""
    groups = np.arange(row_bits // 4, dtype=np.uint64)
    codes = (rows[None] >> (4 * groups)[:, None, None] & np.uint64(15)).astype(np.int64)  # (groups, n, 16)
    if tf32:
        wrong = ~np.isin(codes, _TF32_CODES)
        found: Array = 2 * np.arange(groups.size)[:, None, None] + (codes == _TF32_CODES[1])
        _check(wrong, codes, "of tf32 must be 0100 or 1110")
        return found.transpose(0, 2, 1)
    first, second = codes & 3, codes >> 2
    _check(first >= second if ordered else first == second, codes, "must name two places, the lower one first")
    start = _GROUP * np.arange(groups.size)[:, None, None]
    return np.stack([start + first, start + second], axis=1).reshape(2 * groups.size, *rows.shape).transpose(0, 2, 1)


def _check(wrong: Array, codes: Array, rule: str) -> None:
    if wrong.any():
        group, warp, _ = (int(at[0]) for at in np.nonzero(wrong))
        code = int(codes[np.nonzero(wrong)][0])
        raise LaneFault(warp * WARP, f"metadata {code:04b} of group {group} of a sparse A: they {rule}")


def sparse_product(function: Matrix, a: Array, b: Array, c: Array, at: Array) -> Array:
    """D of stored elements of A (K/2, 16, n), B (K, columns, n), C (16, columns, n) and the places of A's elements.

    A tensor core picks B's rows for each row of A, then multiplies as if both were dense.
    """
    stored, rows, n = a.shape
    columns = b.shape[1]
    picked = np.take_along_axis(b[:, None], at[:, :, None], axis=0)  # (K/2, 16, columns, n)
    flat_b = picked.transpose(0, 2, 1, 3).reshape(stored, columns, rows * n)
    flat_c = c.transpose(1, 0, 2).reshape(1, columns, rows * n)
    found = function(a.reshape(stored, 1, rows * n), np.ascontiguousarray(flat_b), np.ascontiguousarray(flat_c))
    return np.ascontiguousarray(np.asarray(found).reshape(columns, rows, n).transpose(1, 0, 2))
