"""How the hardware serves one warp's memory access: sectors of global memory, wavefronts of shared memory.

The rules were fitted to, and hold exactly for, every access pattern recorded on an H200
(``tests/data/access_patterns.json``, made by ``benchmarks/record_access_patterns.py``):

* Global memory is fetched in sectors of 32 bytes: a request costs the distinct sectors its lanes touch.
* Shared memory has 32 banks of 4 bytes. Lanes are served in groups of 128 bytes: 32 lanes for 4-byte accesses, 16
  for 8, 8 for 16. A group costs as many wavefronts as the busiest bank has distinct words.
* A load of 8 or 16 bytes takes groups twice as large if lanes that differ in bit 0 of their number, or lanes that
  differ in bit 1, all read equal addresses.
* An asynchronous copy does not merge lanes that write one word: the busiest bank counts every lane.
* Bank conflicts are wavefronts beyond one a group.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

WARP = 32
SECTOR = 32
BANKS = 32
NOBODY = -1


def sectors(addresses: Array) -> Array:
    """Distinct sectors for each warp; ``addresses`` is (warps, 32) with −1 where a lane is inactive."""
    numbers = np.where(addresses == NOBODY, NOBODY, addresses // SECTOR)
    numbers.sort(axis=1)
    fresh = np.ones(numbers.shape, bool)
    fresh[:, 1:] = numbers[:, 1:] != numbers[:, :-1]
    fresh &= numbers != NOBODY
    found: Array = fresh.sum(axis=1)
    return found


def wavefronts(addresses: Array, width: int, kind: str) -> tuple[Array, Array]:
    """(wavefronts, groups) for each warp, for a 'load', 'store' or asynchronous 'copy' of ``width`` bytes a lane."""
    if width <= 4:
        counts = _busiest(addresses, width, kind != "copy")
        return counts, (counts > 0).astype(np.int64)
    lanes = 128 // width
    plain = _grouped(addresses, width, lanes, kind)
    if kind != "load":
        return plain
    merged = _pairs_agree(addresses, 1) | _pairs_agree(addresses, 2)
    if not merged.any():
        return plain
    wide = _grouped(addresses, width, 2 * lanes, kind)
    return np.where(merged, wide[0], plain[0]), np.where(merged, wide[1], plain[1])


def _grouped(addresses: Array, width: int, lanes: int, kind: str) -> tuple[Array, Array]:
    pieces = addresses.reshape(-1, lanes)
    counts = _busiest(pieces, width, kind != "copy").reshape(addresses.shape[0], -1)
    return counts.sum(axis=1), (counts > 0).sum(axis=1)


def _pairs_agree(addresses: Array, distance: int) -> Array:
    """Whether lanes whose numbers differ by ``distance`` (a power of two) in that bit agree, in each warp."""
    other = addresses[:, np.arange(WARP) ^ distance]
    agree: Array = ((addresses == other) | (addresses == NOBODY) | (other == NOBODY)).all(axis=1)
    return agree


def _busiest(addresses: Array, width: int, distinct: bool) -> Array:
    """For each row, how many (distinct) words its busiest bank must serve."""
    words = addresses // 4
    if width > 4:
        words = (words[:, :, None] + np.arange(width // 4)).reshape(len(addresses), -1)
        active = np.repeat(addresses != NOBODY, width // 4, axis=1)
    else:
        active = addresses != NOBODY
    words = np.where(active, words, NOBODY)
    if distinct:
        words = np.sort(words, axis=1)
        active = words != NOBODY
        active[:, 1:] &= words[:, 1:] != words[:, :-1]
    cells = (np.arange(len(words))[:, None] * BANKS + words % BANKS)[active]
    busiest: Array = np.bincount(cells, minlength=len(words) * BANKS).reshape(-1, BANKS).max(axis=1)
    return busiest
