"""The Hopper rungs without a GPU: their tensor maps and grids for any problem."""

from __future__ import annotations

import math
import random
import struct
from itertools import product
from typing import Any, cast

import pytest
from hopper_device import Hopper
from hopper_problems import NAMES, as_seen, random_config, random_problem
from mapped_kernel import fake_compile

from gemmsmith.call.binding import aligned_config, bind, specialized_config, workspace_bytes
from gemmsmith.errors import ConfigError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.constraints import LARGEST_SMEM
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.renamed import DIRECT, TMA
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.families.hopper import BOX_ROW
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, Problem, ceil_div
from gemmsmith.run.tensor_map import decode_simulated


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("name", NAMES)
def test_tensor_maps_of_any_problem_obey_the_rules_of_tma(name: str, seed: int) -> None:
    dice = random.Random(f"{name} {seed}")
    spec, (given, places) = rung_named(name), random_problem(dice)
    problem = as_seen(given)
    device: Any = Hopper()
    config = random_config(spec, dice)
    workspace = 1 << 44
    if spec.geometry(problem, specialized_config(spec, config, problem, places)).smem > LARGEST_SMEM:
        with pytest.raises(ConfigError, match=f"in layout {problem.layout}: it needs .* of shared memory"):
            bind(device, spec, config, given, places, workspace, fake_compile)
        return
    *_, last = bind(device, spec, config, given, places, workspace, fake_compile)  # checks every map
    arguments = {a.role: raw for a, raw in zip(spec.signature.arguments, last.launch.arguments, strict=True)}
    end = workspace + workspace_bytes(spec, config, given, places)
    for role, (rows, cols), own, many in (("mapA", problem.a_shape, places.a, problem.copies[0]),
                                          ("mapB", problem.b_shape, places.b, problem.copies[1])):  # fmt: skip
        if spec.unaligned_operands is not None and role[-1] in spec.unaligned_operands(config):  # read in place
            assert not any(arguments[role])
            assert arguments[role[-1]] == struct.pack("<Q", own)
            assert arguments[f"ld{role[-1].lower()}"] == struct.pack("<q", getattr(problem, f"ld{role[-1].lower()}"))
            continue
        described, address = decode_simulated(arguments[role])
        if problem.alpha == 0:  # nothing is read through it; it must describe memory that is there
            assert address == places.c // 16 * 16
            continue
        assert described.extents == (cols, rows, many)
        assert described.box[0] * 2 == described.swizzle == BOX_ROW
        # Of wgmma's columns CLUSTER_M blocks load equal shares, which need not start on 1024 bytes; their sum does.
        shared = name == "wgmma_cluster" and role == ("mapA" if config["SWAP"] else "mapB")
        assert described.box[1] * (config["CLUSTER_M"] if shared else 1) % 8 == 0
        assert described.box[2] == 1
        assert address == own or workspace <= address < end
        assert address % 16 == 0
        last_byte = (many - 1) * described.strides[1] + (rows - 1) * described.strides[0] + cols * 2
        assert address == own or address + last_byte <= end
    stored_by_tma = specialized_config(spec, config, problem, places).get("STORE_MODE", DIRECT) == TMA
    assert any(arguments.get("mapC", b"")) == stored_by_tma
    if stored_by_tma:
        described, address = decode_simulated(arguments["mapC"])
        assert (address, described.extents) == (places.c, (problem.n, problem.m, problem.batch))
        assert described.dtype == problem.out_dtype
        assert described.strides[0] == problem.ldc * problem.out_dtype.itemsize or problem.m == 1


def model(spec: KernelSpec, config: Config, problem: Problem, launched: Geometry) -> list[tuple[int, int, int, int]]:
    """Which (row, column, product, part of K) each block computes, by the arithmetic of the sources."""
    value = dict(config)
    bm, bn = config["BM"], config["BN"]
    wide, high = value.get("CLUSTER_N", 1), value.get("CLUSTER_M", 1)
    rows, cols = (problem.n, problem.m) if value.get("SWAP") else (problem.m, problem.n)
    down, across = ceil_div(rows, bm * high), ceil_div(cols, bn * wide)
    found = []
    for block, z in product(range(launched.grid[0]), range(launched.grid[2])):
        if spec.name == "wgmma_split_k":
            parts = config["SPLIT"] * config["CLUSTERS"]
            tile = block // parts
            found.append((tile % down, tile // down, z, block % parts))
        elif not spec.persistent:
            found.append((*grouped_place(block, 8, down, across), z, 0))
        else:
            cluster = wide * high
            rank = block % cluster
            clusters, tiles = launched.grid[0] // cluster, down * across * problem.batch
            slices = usable_slices(config, tiles, clusters)
            for t in range(block // cluster, tiles * slices, clusters):
                of, at = divmod(t % tiles if slices > 1 else t, down * across)
                row, col = grouped_place(at, config["GROUP"], down, across)
                found.append((row * high + rank % high, col * wide + rank // high, of, t // tiles if slices > 1 else 0))
    return found


def usable_slices(config: Config, tiles: int, clusters: int) -> int:
    """slices.cuh."""
    slices = config.get("SLICES", 1)
    return slices if tiles * slices <= clusters else 1


def grouped_place(index: int, group: int, down: int, across: int) -> tuple[int, int]:
    """grouped_order.cuh."""
    strip = group * across
    top = index // strip * group
    height = min(down - top, group)
    return top + index % strip % height, index % strip // height


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", [name for name in NAMES if name != "wgmma_stream_k"])
def test_the_grid_covers_every_tile_once(name: str, seed: int) -> None:
    """Stream-K divides work by k-tiles, not by tiles."""
    dice = random.Random(f"grid {name} {seed}")
    spec, problem = rung_named(name), Problem(dice.randint(1, 3000), dice.randint(1, 3000), 64, BF16, BF16,
                                              batch=dice.choice((1, 1, 3)))  # fmt: skip
    config = aligned_config(spec, random_config(spec, dice, problem), problem)
    device: Any = Hopper()
    *_, step = bind(device, spec, config, problem, Addresses(256, 512, 1024), 0, fake_compile)
    launched = step.launch.geometry
    cluster = math.prod(launched.cluster)
    assert launched.grid[0] % cluster == 0
    of = dict(config)
    along = of.get("CLUSTER_M", 1) * of.get("CLUSTER_N", 1) * of.get("CLUSTER_K", 1)
    assert cluster == of.get("SPLIT", along)
    assert launched.pdl == (of.get("SLICE_ORDER", 0) == 0), "programmatic dependent launch"
    found = model(spec, config, problem, launched)
    assert len(found) == len(set(found)), "no tile is computed twice"
    rows, cols = (problem.n, problem.m) if dict(config).get("SWAP") else (problem.m, problem.n)
    parts = dict(config).get("SPLIT", 1) * dict(config).get("CLUSTERS", 1)
    if "SLICES" in dict(config):
        all_slices = math.prod(spec.geometry(problem, config).grid) // cluster
        parts = usable_slices(config, all_slices // config["SLICES"], launched.grid[0] // cluster)
    needed = set(product(range(ceil_div(rows, config["BM"])), range(ceil_div(cols, config["BN"])),
                         range(problem.batch), range(parts)))  # fmt: skip
    assert needed <= set(found)
    beyond = set(found) - needed
    assert len(beyond) <= len(found) - len(needed)
    assert not beyond or dict(config).get("CLUSTER_M", 1) * dict(config).get("CLUSTER_N", 1) > 1


@pytest.mark.parametrize("deterministic", [0, 1])
def test_the_reduction_workspace_holds_the_sums_of_all_clusters(deterministic: int) -> None:
    """As the source places them: counters in whole kilobytes, then the sums of every cluster, or of every tile."""
    spec, device = rung_named("wgmma_split_k"), cast(Any, Hopper())
    config = spec.config({"SPLIT": 8, "CLUSTERS": 4, "DETERMINISTIC": deterministic})
    problem, places = Problem(130, 104, 4096, BF16, BF16, batch=3), Addresses(256, 512, 1024)
    tiles = 3 * 4 * 3  # of 64 x 32
    flags, sums = 2048, 4 * 64 * 32 * tiles * (4 if deterministic else 1)  # 36 * 8 counters take 1,152 bytes
    needed = workspace_bytes(spec, config, problem, places)
    assert flags + sums <= needed <= flags + sums + 4096
    zeroing, product_step = bind(device, spec, config, problem, places, 1 << 44, fake_compile)
    assert zeroing.launch.arguments == (struct.pack("<Q", 1 << 44),)
    zeroed = 4096 * zeroing.launch.geometry.grid[0]
    assert zeroed >= (flags if deterministic else flags + sums)
    assert zeroed <= needed
    assert product_step.launch.geometry.grid == (tiles // 3 * 8 * 4, 1, 3)
    roles = [argument.role for argument in spec.signature.arguments]
    assert product_step.launch.arguments[roles.index("workspace")] == struct.pack("<Q", 1 << 44)
    alone = spec.config({"SPLIT": 8})
    assert workspace_bytes(spec, alone, problem, places) == 0
