"""How the hardware serves one warp's memory access: sectors of global memory, wavefronts of shared memory.

The rules were fitted to every access pattern recorded on an H200 and reproduce each of them exactly
(``tests/data/access_patterns.json``, made by ``benchmarks/record_access_patterns.py``). ``docs/counters.md`` explains
them and lists what was not recorded.

* Global memory is fetched in sectors of 32 bytes: a request costs the distinct sectors its lanes touch.
* Shared memory has 32 banks of 4 bytes. Lanes are served in groups of 128 bytes: 32 lanes for 4-byte accesses, 16
  for 8, 8 for 16. A group costs as many wavefronts as the busiest bank has distinct words.
* A load of 8 or 16 bytes takes groups twice as large if lanes that differ in bit 0 of their number, or lanes that
  differ in bit 1, all read equal addresses.
* Bank conflicts are the wavefronts beyond one per group.
* ldmatrix and stmatrix take one group per matrix: its eight rows of 16 bytes (``tests/data/ldmatrix_patterns.json``,
  made by ``benchmarks/record_tensor_cores.py``).
* Asynchronous copies follow other rules: see ``copies``.

Addresses are (warps, 32) arrays with −1 where a lane is inactive, and are multiples of the width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP

SECTOR = 32
LINE = 128
BANKS = 32
NOBODY = -1
_SHARED_SECTORS = 1 << 13  # more than a block's shared memory can have


def sectors(addresses: Array) -> Array:
    """Distinct sectors for each warp; ``addresses`` is (warps, 32) with −1 where a lane is inactive."""
    return distinct(addresses // SECTOR)  # that of nobody is −1 as well


def distinct(addresses: Array) -> Array:
    """Distinct addresses for each warp; ``addresses`` is (warps, 32) with −1 where a lane is inactive."""
    ordered = addresses
    if (addresses[:, 1:] < addresses[:, :-1]).any():
        ordered = np.sort(addresses, axis=1)
    fresh = np.ones(ordered.shape, bool)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    fresh &= ordered != NOBODY
    found: Array = fresh.sum(axis=1)
    return found


def wavefronts(addresses: Array, width: int, *, load: bool) -> tuple[Array, Array]:
    """(wavefronts, groups) for each warp, for a load or store of ``width`` bytes per lane."""
    if width <= 4:
        counts = _busiest(addresses, width)
        return counts, (counts > 0).astype(np.int64)
    lanes = LINE // width
    plain = _grouped(addresses, width, lanes)
    if not load:
        return plain
    merged = _pairs_agree(addresses, 1) | _pairs_agree(addresses, 2)
    if not merged.any():
        return plain
    wide = _grouped(addresses, width, 2 * lanes)
    return np.where(merged, wide[0], plain[0]), np.where(merged, wide[1], plain[1])


def matrix_wavefronts(rows: Array) -> Array:
    """Wavefronts for each matrix of ldmatrix or stmatrix; ``rows`` is (matrices, 8), the addresses of their rows."""
    return _busiest(rows, 16)


def _grouped(addresses: Array, width: int, lanes: int) -> tuple[Array, Array]:
    pieces = addresses.reshape(-1, lanes)
    counts = _busiest(pieces, width).reshape(addresses.shape[0], -1)
    return counts.sum(axis=1), (counts > 0).sum(axis=1)


def _pairs_agree(addresses: Array, distance: int) -> Array:
    """Whether lanes whose numbers differ by ``distance`` (a power of two) in that bit agree, in each warp."""
    other = addresses[:, np.arange(WARP) ^ distance]
    agree: Array = ((addresses == other) | (addresses == NOBODY) | (other == NOBODY)).all(axis=1)
    return agree


def _busiest(addresses: Array, width: int) -> Array:
    """For each row, how many distinct words its busiest bank must serve."""
    words = addresses // 4
    if width > 4:
        words = (words[:, :, None] + np.arange(width // 4)).reshape(len(addresses), -1)
        active = np.repeat(addresses != NOBODY, width // 4, axis=1)
    else:
        active = addresses != NOBODY
    words = np.sort(np.where(active, words, NOBODY), axis=1)
    active = words != NOBODY
    active[:, 1:] &= words[:, 1:] != words[:, :-1]
    cells = (np.arange(len(words))[:, None] * BANKS + words % BANKS)[active]
    busiest: Array = np.bincount(cells, minlength=len(words) * BANKS).reshape(-1, BANKS).max(axis=1)
    return busiest


# -- asynchronous copies ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copies:
    """What asynchronous copies cost, for each warp.

    A copy past L1 has two counts of sectors: those that L1's tag stage counts (``l1tex__t_sectors``) and those
    that the instruction counts (``smsp__sass_l1tex_t_sectors``). Through L1 they are equal.
    """

    requests: Array
    tag_sectors: Array
    sectors: Array
    wavefronts: Array
    conflicts: Array


def copies(targets: Array, sources: Array, reads: Array, width: int, *, bypass: bool, zero_fill: bool) -> Copies:
    """Copies from global ``sources`` to shared ``targets``; lanes without ``reads`` fill with zeros.

    ``bypass``: past L1 (``cp.async.cg``). ``zero_fill``: the form that can fill with zeros, which has its size in a
    register. It costs more even if nothing is filled.

    * A warp makes a global request if any of its lanes reads.
    * Lanes are served in groups of 128 bytes. Two lanes of a group clash if they write to the same bank, or read from
      the same bank (source address / 4 mod 32; only lanes that read). A group costs as many wavefronts as the lane
      with most clashes has, itself included. Conflicts are the wavefronts beyond one per group.
    * Past L1, arriving data is written once more (see ``_arrivals``). This is the whole cost of a copy that is not of
      the zero-filling form. With that form, the wavefronts (not the conflicts) of the groups are counted as if every
      lane that fills read.
    * Past L1, of several lanes with one target only one counts. Sectors are distinct pairs of source and target
      sector, of the first lane that reads for each target; tag sectors are distinct pairs of source line and target
      sector, of the last.

    Assumed, because not recorded on hardware: copies through L1 cost the same in both forms; lanes that read the same
    address clash; sizes between zero and the width count as the width.
    """
    active = targets != NOBODY
    reads = reads & active
    requests: Array = np.asarray(reads.any(axis=1), np.int64)
    clashes, groups = _clashes(targets, np.where(reads, sources, NOBODY), width)
    if not bypass:
        touched = sectors(np.where(reads, sources, NOBODY))
        return Copies(requests, touched, touched, clashes, clashes - groups)
    to, start = targets // SECTOR, sources // SECTOR
    first, last = _first(targets, reads), _first(targets[:, ::-1], reads[:, ::-1])[:, ::-1]
    touched = _distinct(start * _SHARED_SECTORS + to, first)
    tagged = _distinct(sources // LINE * _SHARED_SECTORS + to, last)
    written = _arrivals(targets, sources, _first(targets, active))
    if not zero_fill:
        return Copies(requests, tagged, touched, written, np.zeros_like(written))
    passing, _ = _clashes(targets, np.where(active, sources, NOBODY), width)
    return Copies(requests, tagged, touched, passing + written, clashes - groups)


def _clashes(targets: Array, sources: Array, width: int) -> tuple[Array, Array]:
    """(wavefronts, groups) for each warp, of copies whose lanes share a bank on either side."""
    lanes = LINE // width
    # Two aligned accesses share all of their banks or none: compare their places in a line.
    to, start = (
        np.where(x == NOBODY, NOBODY, x // width % lanes).astype(np.int8).reshape(-1, lanes) for x in (targets, sources)
    )
    clash = (to[:, :, None] == to[:, None, :]) & (to != NOBODY)[:, :, None]
    clash |= (start[:, :, None] == start[:, None, :]) & (start != NOBODY)[:, :, None]
    counts = clash.sum(axis=2).max(axis=1).reshape(len(targets), -1)
    return counts.sum(axis=1), (counts > 0).sum(axis=1)


def _arrivals(targets: Array, sources: Array, winners: Array) -> Array:
    """Wavefronts that write the data that arrives past L1, for each warp; ``winners`` are the lanes that count.

    A unit is the data from one source sector to one target sector. Units are written together if they share source
    line and target line, source and target half sectors, and whether they move between even and odd sectors.
    """
    to, start = targets // SECTOR, sources // SECTOR
    unit = start * _SHARED_SECTORS + to
    halves = 1 << (targets // 16 % 2 * 2 + sources // 16 % 2)
    together = (unit[:, :, None] == unit[:, None, :]) & winners[:, None, :]
    moved = np.bitwise_or.reduce(np.where(together, halves[:, None, :], 0), axis=2)
    kind = moved * 2 + (to - start) % 2
    lines = sources // LINE * _SHARED_SECTORS + targets // LINE
    return _distinct(lines * 32 + kind, winners)


def _first(keys: Array, mask: Array) -> Array:
    """Which lanes of ``mask`` are the first of their warp to have their key."""
    keys = np.where(mask, keys, NOBODY)
    order = np.argsort(keys, axis=1, kind="stable")
    ordered = np.take_along_axis(keys, order, axis=1)
    fresh = ordered != NOBODY
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    found: Array = np.empty_like(fresh)
    np.put_along_axis(found, order, fresh, axis=1)
    return found


def _distinct(keys: Array, mask: Array) -> Array:
    """How many different keys the lanes of ``mask`` have, for each warp."""
    counts: Array = _first(keys, mask).sum(axis=1)
    return counts


def warp_rows(lane_warp: Array, lane_slot: Array, warps: int, values: Array) -> Array:
    """Values of lanes laid out as (warps, 32), −1 where a lane is inactive."""
    table = np.full(warps * WARP, NOBODY, np.int64)
    table[lane_warp * WARP + lane_slot] = values
    rows = table.reshape(warps, WARP)
    used: Array = rows[(rows != NOBODY).any(axis=1)]
    return used
