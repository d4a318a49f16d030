"""Slices of an operand whose rows start anywhere, as threads write them: every byte of shared memory.

The header's own ``begin_load`` and ``finish_load`` run on the simulator, in a kernel that multiplies nothing. The
simulator has no mbarrier, in whose place a word counts arrivals, and no fence between proxies.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import CompileRequest
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import ceil_div
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import LoadedPtx, SimDevice
from gemmsmith.sim.lowering.lower import lower
from gemmsmith.sim.ptx.reader import parse
from gemmsmith.sim.ptx.syntax import Module
from gemmsmith.userfile.files.includes import bundle

INCLUDE = rungs()[0].source.parent / "include"
SOURCE = """#include "tile/shifted_tile.cuh"

struct Asked {
    const unsigned short* matrix;
    long long ld;
    int lines, length, row;
    unsigned k;
};

template <int ROWS, int SLICES, bool ALONG_K>
__device__ __forceinline__ void bring(const Asked* asked, uint4* memory) {
    using Tile = OperandTile<ROWS, ALONG_K>;
    constexpr int CHUNKS = SLICES * Tile::BYTES / 16 + 1;  // and one for the count of arrivals
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned slices = shared_address(shared), count = slices + 16 * (CHUNKS - 1);
    for (int i = threadIdx.x; i < CHUNKS; i += BRINGING)
        store_shared_16(slices + 16 * i, make_uint4(OLD, OLD, OLD, OLD));
    __syncthreads();
    const Asked it = asked[blockIdx.x];
    ShiftedTile<unsigned short, ROWS, Tile, SLICES, BRINGING> tile = {{it.matrix, it.ld, it.lines, it.length}, it.row};
    tile.begin_load(slices, count, it.k, threadIdx.x);
    tile.finish_load(slices, count, it.k, threadIdx.x);
    __syncthreads();
    for (int i = threadIdx.x; i < CHUNKS; i += BRINGING)
        memory[blockIdx.x * CHUNKS + i] = load_shared_16(slices + 16 * i);
}
"""
ENTRY = """
extern "C" __global__ void {name}(const Asked* asked, uint4* memory) {{
    bring<{rows}, {slices}, {along_k}>(asked, memory);
}}
"""
ARRIVE = re.compile(r"mbarrier\.arrive\.shared::cta\.b64 _, \[(%r\d+)\];")
FENCE = "fence.proxy.async.shared::cta;"
THREADS = 128
OLD = 0x7E5A7E5A  # in shared memory before anything is written
GRANULE = 8  # elements in 16 bytes
LIMIT = 2**31

Elements = NDArray[np.uint16]


@dataclass(frozen=True)
class Tile:
    """Rows of slices of 64 of k, and whether k runs along the lines of the stored matrix."""

    rows: int
    slices: int
    along_k: bool

    @property
    def name(self) -> str:
        return f"bring_{self.rows}_{self.slices}_{'along' if self.along_k else 'across'}"

    @property
    def depth(self) -> int:
        return 64 * self.slices

    @property
    def slice_bytes(self) -> int:
        """Across k, a slice is whole boxes of 64 lines of 64 elements."""
        return 128 * (self.rows if self.along_k else 64 * ceil_div(self.rows, 64))


SIZES = ((16, 2), (48, 1), (64, 2), (128, 1))
TILES = [Tile(rows, slices, along_k) for rows, slices in SIZES for along_k in (True, False)]
each_tile = pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)


@dataclass(frozen=True)
class Asked:
    """A tile at (row, k) of a matrix of ``rows`` by ``depth``, whose lines are ``pad`` longer than they have elements
    and begin ``offset`` elements after a boundary."""

    rows: int
    depth: int
    row: int
    k: int
    offset: int = 0
    pad: int = 0

    def stored(self, tile: Tile) -> tuple[int, int, int]:
        """Lines, their length, and from one to the next."""
        lines, length = (self.rows, self.depth) if tile.along_k else (self.depth, self.rows)
        return lines, length, length + self.pad


def elements(places: NDArray[np.int64]) -> Elements:
    """What is stored at each place: any bits but zeros, which stand for what is not there."""
    mixed = places.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(48)).astype(np.uint16) | np.uint16(1)


def wanted(tile: Tile, asked: Asked) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Of each row and k of a tile: where it is stored, from the last boundary before the matrix, and whether it is."""
    row, k = asked.row + np.arange(tile.rows)[:, None], asked.k + np.arange(tile.depth)[None, :]
    _, _, ld = asked.stored(tile)
    places = asked.offset + (row * ld + k if tile.along_k else k * ld + row)
    return places, (row < asked.rows) & (k < asked.depth)


def expected(tile: Tile, asked: Asked) -> bytes:
    """Shared memory as the copy engine writes it, in rows of 128 bytes with their chunks exchanged; then the count."""
    places, there = wanted(tile, asked)
    values = np.where(there, elements(places), np.uint16(0))
    memory = np.full(tile.slices * tile.slice_bytes // 2, OLD & 0xFFFF, np.uint16)
    for part in range(tile.slices):
        piece = values[:, 64 * part : 64 * (part + 1)]
        lines = piece if tile.along_k else piece.T
        line, chunk = np.ogrid[: lines.shape[0], : lines.shape[1] // 8]
        at = part * tile.slice_bytes + (chunk // 8 * 64 + line) * 128 + (chunk % 8 ^ line % 8) * 16
        memory[at[..., None] // 2 + np.arange(8)] = lines.reshape(*at.shape, 8)
    return memory.tobytes() + struct.pack("<4I", OLD + THREADS, OLD, OLD, OLD)


@cache
def module() -> Module:
    """All tiles, in one compilation, as the simulator takes them."""
    header = bundle(INCLUDE / "tile" / "shifted_tile.cuh", (INCLUDE,))
    entries = [ENTRY.format(name=tile.name, rows=tile.rows, slices=tile.slices, along_k=str(tile.along_k).lower())
               for tile in TILES]  # fmt: skip
    request = CompileRequest("bring.cu", SOURCE + "".join(entries),
                             (*header.headers, ("tile/shifted_tile.cuh", header.source)),
                             (("OLD", str(OLD)), ("BRINGING", str(THREADS))), "sm_90", TILES[0].name)  # fmt: skip
    ptx, arrivals = ARRIVE.subn(r"red.shared.add.u32 [\1], 1;", compile_request(request, find_toolchain()).ptx)
    assert arrivals == ptx.count(FENCE) == len(TILES)
    return parse(ptx.replace(FENCE, "membar.cta;"))


@cache
def loaded(tile: Tile) -> LoadedPtx:
    entry = module().entry(tile.name)
    return LoadedPtx(entry, lower(entry, {}))


def store(device: SimDevice, tile: Tile, asked: Asked) -> bytes:
    """Writes what lies in and near the tile to an allocation that has the matrix' granules and none besides."""
    lines, length, ld = asked.stored(tile)
    granules = ceil_div(asked.offset + (lines - 1) * ld + length, GRANULE)
    base = device.allocate(16 * granules)
    top, left = (asked.row, asked.k) if tile.along_k else (asked.k, asked.row)
    down, right = (tile.rows, tile.depth) if tile.along_k else (tile.depth, tile.rows)
    for line in range(min(top, lines), min(top + down, lines)):
        first = asked.offset + line * ld + min(left, length)
        places = np.arange(max(first - 2 * GRANULE, 0), min(first + right + 2 * GRANULE, GRANULE * granules))
        device.write(base + 2 * int(places[0]), elements(places).view(np.uint8))
    return struct.pack("<QqiiiI", base + 2 * asked.offset, ld, lines, length, asked.row, asked.k)


def check(tile: Tile, cases: list[Asked], reads: bool = True) -> None:
    """One block for each of them, and all bytes of its shared memory."""
    device = SimDevice(hazards=True, timeout=60)
    stored = [store(device, tile, asked) for asked in cases]
    for matrix in () if reads else stored:
        device.forbid_reads(int.from_bytes(matrix[:8], "little"), "nothing of it is wanted")
    table = np.frombuffer(b"".join(stored), np.uint8)
    size = tile.slices * tile.slice_bytes + 16
    asked_at, memory = device.allocate(table.nbytes), device.allocate(size * len(cases))
    device.write(asked_at, table)
    geometry = Geometry((len(cases), 1, 1), (THREADS, 1, 1), size)
    arguments = tuple(address.to_bytes(8, "little") for address in (asked_at, memory))
    device.launch(loaded(tile), Launch(geometry, arguments))
    device.synchronize()
    for n, asked in enumerate(cases):
        got = device.read(memory + n * size, size)
        wrong = np.flatnonzero(got != np.frombuffer(expected(tile, asked), np.uint8))
        assert wrong.size == 0, f"{asked}: {wrong.size} bytes differ, the first at {wrong[0]} of {size}"


@each_tile
def test_rows_begin_anywhere(tile: Tile) -> None:
    """In the middle of a matrix, whose lines begin at all distances from a boundary, or all at the same one."""
    inside = Asked(3 * tile.rows, 3 * tile.depth, tile.rows, tile.depth)
    check(tile, [replace(inside, offset=offset, pad=pad) for offset in range(8) for pad in (1, 3, 8)])


@each_tile
def test_what_lies_beyond_the_matrix_is_zero(tile: Tile) -> None:
    """Of any number of rows and of k that are left; elements of the next line, or none at all, follow them."""
    rows, depths = (sorted({1, 2, 7, 8, 9, most - 1, most}) for most in (tile.rows, tile.depth))
    offsets, pads = (1, 7, 4, 0, 3), (0, 1, 3, 8, 2, 5, 7)
    ends = [(row, depth) for row in rows for depth in (1, 13)]
    ends += [(row, depth) for row in (1, tile.rows - 3) for depth in depths]
    check(tile, [Asked(tile.rows + row, tile.depth + depth, tile.rows, tile.depth, offsets[n % 5], pads[n % 7])
                 for n, (row, depth) in enumerate(ends)])  # fmt: skip


@each_tile
def test_slices_beyond_the_matrix_are_zero_and_nothing_is_read(tile: Tile) -> None:
    """The step of a block that has none of its own lies there; its k may have overflowed."""
    check(tile, [Asked(rows, depth, 0, k, offset=5) for rows in (1, tile.rows) for depth in (1, 64, 65)
                 for k in (128, 128 + tile.depth, LIMIT, LIMIT + 128)], reads=False)  # fmt: skip


@pytest.mark.parametrize("tile", [tile for tile in TILES if tile.rows == 48], ids=lambda tile: tile.name)
def test_matrices_beyond_32_bits(tile: Tile) -> None:
    """The last tile, of long lines, of many and of distant ones: simulated pages exist once they are touched."""
    last = (LIMIT - 1) // tile.depth * tile.depth
    deep, high = Asked(5, LIMIT - 1, 0, last, offset=3), Asked(LIMIT - 1, 5, (LIMIT - 1) // 48 * 48, 0, offset=6)
    distant = Asked(9, 9, 0, 0, offset=1, pad=LIMIT + 5)
    check(tile, [deep, high, distant])
