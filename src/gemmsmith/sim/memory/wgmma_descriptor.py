"""Matrix descriptors of wgmma: where the elements of an operand in shared memory are.

A descriptor has a start address, a leading and a stride offset, and a swizzle. The operand is made of units of eight
rows and 16 bytes. K-major: a row runs along k, the stride offset leads to the next eight rows, and without swizzle the
leading offset leads to the next 16 bytes of k. MN-major: a row runs along M or N; the stride offset leads to the next
eight of k, and the leading offset to the next span of the swizzle along M or N; without swizzle they change places.

A swizzle of 128 bytes repeats every 1,024 bytes. The base offset says by how many rows of 128 bytes the pattern of an
operand begins later than that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.memory.tensor_box import swizzled
from gemmsmith.sim.ptx.types import Array

_SPANS = np.array([0, 128, 64, 32])  # bytes, by the two highest bits
_UNIT = 16
_PATTERN_ROW = 128  # bytes of a row of the widest swizzle


@dataclass(frozen=True)
class Descriptors:
    """The fields of many descriptors: addresses and offsets in bytes, the swizzle's span in bytes."""

    start: Array
    leading: Array
    stride: Array
    base: Array
    span: Array


def decode(words: Array) -> Descriptors:
    """Descriptors from their 64 bits."""
    bits = words.astype(np.uint64)

    def field(shift: int, width: int) -> Array:
        found: Array = (bits >> np.uint64(shift) & np.uint64((1 << width) - 1)).astype(np.int64)
        return found

    return Descriptors(field(0, 14) * _UNIT, field(16, 14) * _UNIT, field(32, 14) * _UNIT, field(49, 3),
                       _SPANS[field(62, 2)])  # fmt: skip


def k_major(d: Descriptors, rows: Array, nbytes: int) -> Array:
    """Addresses (descriptors, rows, units) of the 16-byte units of k of these rows; ``nbytes`` of k."""
    units = np.arange(0, nbytes, _UNIT)
    return _by_span(d, lambda span, at: _k_major(at, span, rows, units))


def _k_major(d: Descriptors, span: int, rows: Array, units: Array) -> Array:
    along = units[None, None] if span else units[None, None] // _UNIT * d.leading[:, None, None]
    inside = rows % 8 * (span or _UNIT)
    found: Array = d.start[:, None, None] + (inside[None] + rows[None] // 8 * d.stride[:, None])[:, :, None] + along
    return found


def mn_major(d: Descriptors, rows: Array, depth: int) -> Array:
    """Addresses (descriptors, rows, depth) of 16-bit elements, of which eight along M or N are 16 bytes."""
    return _by_span(d, lambda span, at: _mn_major(at, span, rows, np.arange(depth)))


def _mn_major(d: Descriptors, span: int, rows: Array, k: Array) -> Array:
    width = (span or _UNIT) // 2  # elements along M or N that are contiguous, up to the swizzle
    across, along = (d.leading, d.stride) if span else (d.stride, d.leading)
    row = rows[None] % width * 2 + rows[None] // width * across[:, None]
    deep = k[None] % 8 * (span or _UNIT) + k[None] // 8 * along[:, None]
    found: Array = d.start[:, None, None] + row[:, :, None] + deep[:, None, :]
    return found


def _by_span(d: Descriptors, place: Callable[[int, Descriptors], Array]) -> Array:
    span, base = int(d.span[0]), int(d.base[0])
    if (d.span == span).all() and (d.base == base).all():
        plain = place(span, d)
        shifted = swizzled(plain - base * _PATTERN_ROW, span)
        found: Array = shifted + base * _PATTERN_ROW
        return found
    parts = [_by_span(Descriptors(*(f[n : n + 1] for f in (d.start, d.leading, d.stride, d.base, d.span))), place)
             for n in range(d.span.size)]  # fmt: skip
    return np.concatenate(parts)
