"""How C is divided into wide tiles and narrower ones at its right end: by the device's function and by the model.

Both are compared with a search that is written down here from the header's words, wave by wave.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from gemmsmith.choose.columns import tiles_of
from gemmsmith.choose.cost_data import wgmma_costs
from gemmsmith.choose.waves import divide_columns
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import CompileRequest
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import ceil_div
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.files.includes import read_source

INCLUDE = rungs()[0].source.parent / "include"
TILE_ENDS = wgmma_costs().tile_ends
SOURCE = """#include "schedule/tail_tiles.cuh"
extern "C" __global__ void divide(const int* n, const unsigned* height, const unsigned* workers, unsigned* wide,
                                  int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) wide[i] = wide_columns<WIDE, TAIL, BESIDE>(n[i], height[i], workers[i]);
}
"""
THREADS = 128


class Widths(NamedTuple):
    """Columns of a wide and of a tail tile, and how many a cluster has beside each other."""

    wide: int
    tail: int
    beside: int


WIDTHS = (Widths(192, 128, 2), Widths(256, 128, 1), Widths(256, 192, 2), Widths(192, 64, 2))
EVERY_WIDTH = pytest.mark.parametrize("widths", WIDTHS, ids=["-".join(map(str, widths)) for widths in WIDTHS])


class Grid(NamedTuple):
    """Columns of C, tiles above each other, and who take tiles in turn."""

    n: int
    height: int
    workers: int


class Division(NamedTuple):
    """Columns of tiles of either width, and waves that begin with one."""

    wide: int
    tail: int
    first: int
    then: int


def waves(tiles: int, workers: int) -> int:
    return len(range(0, tiles, workers))


def divided(widths: Widths, grid: Grid, wide: int) -> Division:
    """With ``wide`` columns of wide tiles, and as many tail ones as the rest of C needs."""
    tail, left = 0, wide * widths.wide * widths.beside
    while left < grid.n:
        tail, left = tail + 1, left + widths.tail * widths.beside
    first = waves(wide * grid.height, grid.workers)
    return Division(wide, tail, first, waves((wide + tail) * grid.height, grid.workers) - first)


def time_of(widths: Widths, division: Division) -> int:
    """A wave takes as long as its first tile: those after it are as wide, or narrower."""
    return division.first * (widths.wide + TILE_ENDS) + division.then * (widths.tail + TILE_ENDS)


def best(widths: Widths, grid: Grid) -> Division:
    """Of wide tiles alone, and of those that fill one to three waves less, what takes least; first the widest."""
    every = ceil_div(grid.n, widths.wide * widths.beside)
    most = waves(every * grid.height, grid.workers)
    found = []
    for fewer in range(min(3, most) + 1):
        wide = next(w for w in range(every, -1, -1) if waves(w * grid.height, grid.workers) <= most - fewer)
        found.append(divided(widths, grid, wide))
    return min(found, key=lambda division: time_of(widths, division))


@cache
def grids(widths: Widths) -> tuple[Grid, ...]:
    """Any, and those at which something ends: a tile, a wave, C itself."""
    rng, span = np.random.default_rng(19), widths.wide * widths.beside
    found = [
        Grid(int(n), int(height), int(workers))
        for n, height, workers in zip(
            rng.integers(1, 40_001, 300), rng.integers(1, 201, 300), rng.integers(1, 133, 300), strict=True
        )
    ]
    found += [Grid(n, height, workers) for n in (1, span - 1, span, span + 1, 22 * span - 1, 22 * span, 40_000)
              for height in (1, 32, 66, 200) for workers in (1, 66, 132)]  # fmt: skip
    found += [Grid(int(n), 32, 66) for n in rng.integers(1024, 12_289, 60)]  # 8192 rows of 256, clusters of two
    return (*found, Grid(8192, 32, 66), Grid(6144, 24, 66), Grid(8192, 64, 132))


def header(name: str) -> tuple[str, str]:
    return name, read_source(INCLUDE / name)


def compiled(widths: Widths) -> CompiledKernel:
    defines = tuple((name.upper(), str(value)) for name, value in widths._asdict().items())
    headers = (header("schedule/tail_tiles.cuh"), header("ptx/shared_memory.cuh"))
    return compile_request(CompileRequest("divide.cu", SOURCE, headers, defines, "sm_80", "divide"), find_toolchain())


@cache
def on_device(widths: Widths) -> tuple[int, ...]:
    """Columns of wide tiles, as the simulator computes them for every grid."""
    device, count = SimDevice(), len(grids(widths))
    columns = [np.array(column, np.int32) for column in zip(*grids(widths), strict=True)]
    places = [device.allocate(4 * count) for _ in range(len(columns) + 1)]
    for place, column in zip(places, columns, strict=False):
        device.write(place, column.view(np.uint8))
    arguments = (*(place.to_bytes(8, "little") for place in places), count.to_bytes(4, "little"))
    geometry = Geometry((ceil_div(count, THREADS), 1, 1), (THREADS, 1, 1))
    device.launch(device.load(compiled(widths)), Launch(geometry, arguments))
    return tuple(device.read(places[-1], 4 * count).view(np.uint32).tolist())


@EVERY_WIDTH
def test_the_device_divides_c_as_the_words_say(widths: Widths) -> None:
    expected = [best(widths, grid) for grid in grids(widths)]
    wrong = [(grid, division, wide) for grid, division, wide in
             zip(grids(widths), expected, on_device(widths), strict=True) if division.wide != wide]  # fmt: skip
    assert not wrong
    kinds = [(division.wide > 0, division.tail > 0) for division in expected]
    assert min(kinds.count(kind) for kind in ((True, True), (True, False), (False, True))) >= 10


def in_model(widths: Widths) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    tiles = tiles_of([{"BM": 256, "BN": widths.wide, "CLUSTER_N": widths.beside, "GROUP": 8, "TAIL_BN": widths.tail}])
    n, height, workers = (np.array(column, np.float64) for column in zip(*grids(widths), strict=True))
    return divide_columns(tiles, n, height, workers)


@EVERY_WIDTH
def test_the_model_has_the_waves_of_the_device(widths: Widths) -> None:
    for grid, wide, *found in zip(grids(widths), on_device(widths), *in_model(widths), strict=True):
        division = divided(widths, grid, wide)
        assert tuple(found) == (division.first, division.then), grid


@EVERY_WIDTH
def test_c_is_covered_and_never_slower_than_by_wide_tiles(widths: Widths) -> None:
    """Tiles lie side by side, so none is too many if the last one begins inside of C."""
    for grid, wide in zip(grids(widths), on_device(widths), strict=True):
        division = divided(widths, grid, wide)
        of_wide, of_tail = widths.wide * widths.beside, widths.tail * widths.beside
        end = division.wide * of_wide + division.tail * of_tail
        assert end - (of_tail if division.tail else of_wide) < grid.n <= end, grid
        alone = divided(widths, grid, ceil_div(grid.n, of_wide))
        assert alone.tail == 0
        assert time_of(widths, division) <= time_of(widths, alone), grid


def test_both_know_the_same_ends_of_a_tile() -> None:
    found = re.search(r"constexpr unsigned TILE_ENDS = (\d+);", header("schedule/tail_tiles.cuh")[1])
    assert found is not None
    assert int(found.group(1)) == TILE_ENDS


def test_the_last_wave_of_8192_cubed_is_a_short_one() -> None:
    """Tiles of 256x192 in clusters of two: 704 pairs would be eleven waves, and are ten and a tail one."""
    assert best(Widths(192, 128, 2), Grid(8192, 32, 66)) == Division(20, 2, 10, 1)
    assert best(Widths(192, 128, 2), Grid(6144, 24, 66)) == Division(16, 0, 6, 0), "they fill all but a few places"


# --- who takes which tile: the rung's own loop, in a kernel that multiplies nothing

LOOP = re.compile(r"    const auto for_each_tile = .*?\n    };\n", re.S)
AROUND = """#include "schedule/grouped_order.cuh"
#include "schedule/tail_tiles.cuh"
struct Rank {
    int row, col;
};
struct Slices {
    unsigned count = 1;
    __device__ unsigned tile(unsigned t) const { return t; }
};
extern "C" __global__ void take(int M, int N, int batch, int room, int4* tiles) {
    constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
    __shared__ unsigned place;
    const unsigned tiles_m = (M - 1) / (BM * CLUSTER_M) + 1, clusters = gridDim.x / CLUSTER;
    const WideColumns<BN, TAIL_BN, CLUSTER_N> wide(shared_address(&place), N, tiles_m * batch, clusters);
    __syncthreads();
    const int rank = blockIdx.x % CLUSTER;
    const Rank loader{rank % CLUSTER_M, rank / CLUSTER_M};
    const int cols = N;
    const Slices slices;
LOOP
    int taken = 0;
    for_each_tile([&](auto width, int row, int col, int z, unsigned) {
        tiles[blockIdx.x * room + taken++] = {row, col, decltype(width)::value, z};
    });
}
"""
CLUSTERED = (
    {"BM": 256, "BN": 192, "CLUSTER_M": 1, "CLUSTER_N": 2, "GROUP": 4, "TAIL_BN": 128},
    {"BM": 128, "BN": 256, "CLUSTER_M": 2, "CLUSTER_N": 1, "GROUP": 8, "TAIL_BN": 192},
    {"BM": 64, "BN": 128, "CLUSTER_M": 1, "CLUSTER_N": 1, "GROUP": 1, "TAIL_BN": 64},
    {"BM": 128, "BN": 192, "CLUSTER_M": 2, "CLUSTER_N": 2, "GROUP": 2, "TAIL_BN": 0},
)


@pytest.mark.parametrize("config", CLUSTERED, ids=lambda config: "-".join(map(str, config.values())))
def test_every_element_of_c_is_computed_once(config: dict[str, int]) -> None:
    """By any number of clusters that go from tile to tile: all wide ones of a batch, then all tail ones."""
    loop = LOOP.search(read_source(rung_named("wgmma_cluster").source))
    assert loop is not None
    headers = tuple(header(name) for name in ("schedule/grouped_order.cuh", "schedule/tail_tiles.cuh",
                                              "schedule/tile_order.cuh", "ptx/shared_memory.cuh"))  # fmt: skip
    defines = tuple((name, str(value)) for name, value in config.items())
    request = CompileRequest("take.cu", AROUND.replace("LOOP\n", loop.group()), headers, defines, "sm_80", "take",
                             device_only=True)  # fmt: skip
    device, rng, seen = SimDevice(), np.random.default_rng(20), set()
    loaded = device.load(compile_request(request, find_toolchain()))
    for _ in range(10):
        m, n, batch, clusters = (int(rng.integers(1, most)) for most in (1500, 4000, 4, 12))
        rows, blocks = ceil_div(m, config["BM"]), clusters * config["CLUSTER_M"] * config["CLUSTER_N"]
        room = 8 + rows * batch * ceil_div(n, 64)  # for all tiles, of which one block may have most
        tiles = np.full((blocks * room, 4), -1, np.int32)
        place = device.allocate(tiles.nbytes)
        device.write(place, tiles.reshape(-1).view(np.uint8))
        arguments = (*(value.to_bytes(4, "little") for value in (m, n, batch, room)), place.to_bytes(8, "little"))
        device.launch(loaded, Launch(Geometry((blocks, 1, 1), (1, 1, 1)), arguments))
        counts = np.zeros((batch, rows * config["BM"], n), np.int32)
        found = device.read(place, tiles.nbytes).view(np.int32).reshape(-1, 4)
        found = found[found[:, 2] > 0]
        for row, col, width, z in found:
            counts[z, row : row + config["BM"], col : col + width] += 1
        assert (counts == 1).all(), (m, n, batch, clusters)
        if config["TAIL_BN"]:
            height = ceil_div(rows, config["CLUSTER_M"]) * batch
            widths = Widths(config["BN"], config["TAIL_BN"], config["CLUSTER_N"])
            wide = best(widths, Grid(n, height, clusters)).wide * height * (blocks // clusters)
            assert (found[:, 2] == config["BN"]).sum() == wide, (m, n, batch, clusters)
        seen |= set(found[:, 2].tolist())
    assert seen == {config["BN"], config["TAIL_BN"]} - {0}
