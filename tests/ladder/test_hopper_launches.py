"""The Hopper rungs without a GPU: their tensor maps and grids for any problem, and what they refuse."""

from __future__ import annotations

import math
import random
import struct
from dataclasses import replace
from itertools import product
from typing import Any, cast

import pytest
from hopper_device import Hopper
from mapped_kernel import fake_compile

from gemmsmith.call.binding import aligned_config, bind, specialized_config, workspace_bytes
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import ConfigError, UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.constraints import LARGEST_SMEM
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.renamed import DIRECT, THREADS, TMA
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.families.hopper import BOX_ROW
from gemmsmith.ladder.families.hopper_store import box_width
from gemmsmith.ladder.registry import rung_named, rungs, rungs_for
from gemmsmith.problem import BF16, FP16, FP32, Problem, ceil_div
from gemmsmith.run.tensor_map import decode_simulated

NAMES = [spec.name for spec in rungs() if spec.arch_specific == 90 and spec.align_copies]
STORING = [name for name in NAMES if "STORE_MODE" in dict(rung_named(name).config())]
CLUSTER = rung_named("wgmma_cluster")


def random_problem(dice: random.Random) -> tuple[Problem, Addresses]:
    """Any layout, sizes, paddings, strides and addresses; most cannot be described by a tensor map."""
    m, n, k = (dice.choice((1, 2, 7, 8, 63, 64, 65, 127, 256, 300, 1000, 4097)) for _ in range(3))
    dtype = dice.choice((FP16, BF16))
    batch = dice.choice((1, 1, 1, 2, 5))
    tight = Problem(m, n, k, dtype, dice.choice((dtype, FP32)), trans_a=dice.random() < 0.5,
                    trans_b=dice.random() < 0.5)  # fmt: skip
    pads = [dice.choice((0, 0, 1, 3, 8, 24)) for _ in range(3)]
    problem = tight.with_(alpha=dice.choice((1.0, 1.0, 1.0, 0.0)), batch=batch,
                          lda=tight.lda + pads[0], ldb=tight.ldb + pads[1], ldc=tight.ldc + pads[2],
                          stride_a=dice.choice((-1, 0)), stride_b=dice.choice((-1, 0)))  # fmt: skip
    size = problem.out_dtype.itemsize
    places = [base + dice.choice((0, 0, 1, 8)) * step
              for base, step in ((1 << 20, 2), (1 << 30, 2), (1 << 40, size))]  # fmt: skip
    return problem, Addresses(*places)


def random_config(spec: KernelSpec, dice: random.Random, fits: Problem | None = None) -> Config:
    """A legal configuration that fits the layout of that problem; parameters are drawn until one is found."""
    while True:
        drawn = Config(tuple((p.name, dice.choice(p.legal)) for p in spec.parameters))
        # Few other numbers of boxes divide a tile, and TMA stores few of the problems.
        drawn = drawn.with_(STORE_BOXES=dice.choice((1, 2, 4)), STORE_MODE=dice.choice((DIRECT, THREADS, TMA, TMA)))
        drawn = drawn.with_(SLICES=dice.choice((1, 1, 1, 2, 5, 16)))  # slices are never stored by TMA
        if spec.illegal(drawn):
            continue
        if fits is None or spec.geometry(fits, aligned_config(spec, drawn, fits)).smem <= LARGEST_SMEM:
            return drawn


def as_seen(problem: Problem) -> Problem:
    """A batch with one B is one product, if it can be; a vector along k with contiguous elements is taken as a row."""
    problem = problem.folded
    if problem.alpha == 0 or problem.k == 0:
        return problem
    if problem.m == 1 and problem.trans_a and problem.lda == 1:
        problem = replace(problem, trans_a=False, lda=problem.k)
    if problem.n == 1 and not problem.trans_b and problem.ldb == 1:
        problem = replace(problem, trans_b=True, ldb=problem.k)
    return problem


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


# --- operands that are read in place, unaligned

SPLIT_K = rung_named("wgmma_split_k")
LAYOUTS = ("NN", "NT", "TN", "TT")
A, B, C, WORKSPACE = 1 << 20, 1 << 30, 1 << 40, 1 << 44
ROLES_OF = (("A", "lda", "mapA"), ("B", "ldb", "mapB"))


def of_layout(layout: str, m: int, n: int, k: int, **changes: Any) -> Problem:
    return Problem(m, n, k, BF16, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T", **changes)


def unaligned_launches(swap: int, problem: Problem, places: Addresses, mode: int = 1) -> tuple[int, dict[str, bytes]]:
    """How many launches come before the kernel's own, and its arguments by their roles."""
    config = SPLIT_K.config({"BN": 16, "STAGES": 4, "SWAP": swap, "UNALIGNED_OPERANDS": mode})
    *before, own = bind(cast(Any, Hopper()), SPLIT_K, config, problem, places, WORKSPACE, fake_compile)
    roles = [argument.role for argument in SPLIT_K.signature.arguments]
    return len(before), dict(zip(roles, own.launch.arguments, strict=True))


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("own_skew", [0, 2])
@pytest.mark.parametrize("other_skew", [0, 2])
def test_an_unaligned_operand_is_read_in_place_and_the_other_is_copied_if_it_must_be(
    swap: int, layout: str, own_skew: int, other_skew: int
) -> None:
    own, other = ROLES_OF[swap], ROLES_OF[1 - swap]
    skews = (own_skew, other_skew) if swap == 0 else (other_skew, own_skew)
    places, problem = Addresses(A + skews[0], B + skews[1], C), of_layout(layout, 72, 80, 128, batch=2)
    config = SPLIT_K.config({"BN": 16, "STAGES": 4, "SWAP": swap, "UNALIGNED_OPERANDS": 1})
    launches, arguments = unaligned_launches(swap, problem, places)
    assert launches == (1 if other_skew else 0)
    assert not any(arguments[own[2]]), "it has no map"
    assert arguments[own[0]] == struct.pack("<Q", places[swap])
    assert arguments[own[1]] == struct.pack("<q", getattr(problem, own[1]))
    described, address = decode_simulated(arguments[other[2]])
    copied = described.strides[1] * problem.batch
    assert workspace_bytes(SPLIT_K, config, problem, places) == (ceil_div(copied, 256) * 256 if other_skew else 0)
    assert address == (WORKSPACE if other_skew else places[1 - swap])
    assert described.operand == other[0]
    plain = SPLIT_K.config({"BN": 16, "STAGES": 4, "SWAP": swap})
    steps = bind(cast(Any, Hopper()), SPLIT_K, plain, problem, places, WORKSPACE, fake_compile)
    assert len(steps) == 1 + bool(own_skew or other_skew), "by default, both are copied by one launch"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("swap", [0, 1])
def test_an_unaligned_operand_keeps_its_leading_dimension_and_stride(swap: int, layout: str) -> None:
    problem = of_layout(layout, 16, 72, 61, batch=3)
    ld, stride = ("lda", "stride_a") if swap == 0 else ("ldb", "stride_b")
    given: dict[str, int] = {ld: getattr(problem, ld) + 3, stride: getattr(problem, stride) + 1234}
    problem = of_layout(layout, 16, 72, 61, batch=3, **given)
    launches, arguments = unaligned_launches(swap, problem, Addresses(A + 2, B + 6, C))
    assert launches == 1
    assert arguments[ld] == struct.pack("<q", given[ld])
    assert arguments["strideA" if swap == 0 else "strideB"] == struct.pack("<q", given[stride])
    described, address = decode_simulated(arguments["mapB" if swap == 0 else "mapA"])
    assert address == WORKSPACE
    assert all(step % 16 == 0 for step in described.strides)


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("skews", "pads"), [((0, 0), (0, 0)), ((2, 0), (0, 0)), ((0, 6), (0, 0)), ((2, 14), (3, 1))])
def test_of_two_unaligned_operands_neither_is_copied_or_has_a_map(
    swap: int, layout: str, skews: tuple[int, int], pads: tuple[int, int]
) -> None:
    tight, places = of_layout(layout, 24, 72, 61, batch=3), Addresses(A + skews[0], B + skews[1], C)
    given = {"lda": tight.lda + pads[0], "ldb": tight.ldb + pads[1]}
    given |= {"stride_a": tight.stride_a + 1000 + pads[0], "stride_b": tight.stride_b + 2000 + pads[1]}
    problem = of_layout(layout, 24, 72, 61, batch=3, **given)
    config = SPLIT_K.config({"BN": 16, "STAGES": 4, "SWAP": swap, "UNALIGNED_OPERANDS": 2})
    assert SPLIT_K.unaligned_operands is not None
    assert SPLIT_K.tensor_maps is not None
    assert (SPLIT_K.unaligned_operands(config), SPLIT_K.tensor_maps(problem, config)) == ("AB", {})
    assert workspace_bytes(SPLIT_K, config, problem, places) == 0
    launches, arguments = unaligned_launches(swap, problem, places, mode=2)
    assert launches == 0
    for number, (operand, ld, described) in enumerate(ROLES_OF):
        assert not any(arguments[described])
        assert arguments[operand] == struct.pack("<Q", places[number])
        assert arguments[ld] == struct.pack("<q", given[ld])
        assert arguments[f"stride{operand}"] == struct.pack("<q", given[f"stride_{operand.lower()}"])


def bytes_of_a_block(config: Config, a_k_major: bool, b_k_major: bool) -> int:
    """Shared memory of rung 20 as its source lays it out: stages, sums, barriers."""
    depth, k_major = 64 * config["DEPTH"], (b_k_major, a_k_major) if config["SWAP"] else (a_k_major, b_k_major)
    # A warpgroup multiplies 64 rows of the first operand: those beyond BM are zeros.
    boxed = [128 * config["DEPTH"] * (rows if k and i else ceil_div(rows, 64) * 64)
             for i, (rows, k) in enumerate(zip((config["BM"], config["BN"]), k_major, strict=True))]  # fmt: skip
    if config["UNALIGNED_OPERANDS"]:
        lines, length = (config["BM"], depth) if k_major[0] else (depth, config["BM"])
        boxed[0] = lines * (length // 8 + 1) * 16
    return config["STAGES"] * (sum(boxed) + 2 * 8) + 4 * config["BM"] * (config["BN"] + 4) + 8


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_launch_has_the_shared_memory_that_the_source_lays_out(layout: str) -> None:
    dice, seen = random.Random(f"smem {layout}"), set()
    for _ in range(300):
        problem = of_layout(layout, dice.randint(1, 300), dice.randint(1, 300), dice.randint(1, 300))
        config = random_config(SPLIT_K, dice)
        seen_as = as_seen(problem)
        needed = bytes_of_a_block(config, not seen_as.trans_a, seen_as.trans_b)
        places = Addresses(A + dice.choice((0, 2)), B + dice.choice((0, 2)), C)
        seen.add((config["UNALIGNED_OPERANDS"], config["SWAP"], needed <= 232_448))
        if needed > 232_448:
            with pytest.raises(ConfigError, match=f"it needs {needed:,} B of shared memory"):
                bind(cast(Any, Hopper()), SPLIT_K, config, problem, places, WORKSPACE, fake_compile)
            continue
        *_, own = bind(cast(Any, Hopper()), SPLIT_K, config, problem, places, WORKSPACE, fake_compile)
        assert own.launch.geometry.smem == needed, str(config)
    assert {(mode, swap, True) for mode, swap in product((0, 1, 2), (0, 1))} <= seen


# --- refusals


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", NAMES)
def test_another_architecture_is_refused(name: str, arch: str) -> None:
    spec = rung_named(name)
    with pytest.raises(UnsupportedError) as caught:
        compile_for(
            spec,
            spec.config({"STORE_MODE": DIRECT} if name in STORING else {}),
            Problem(512, 512, 512, BF16, FP32),
            arch,
        )
    assert f"{name} uses instructions that only sm_90 has, so it cannot be compiled for {arch}" in caught.value.message
    assert spec not in rungs_for(int(arch.removeprefix("sm_")))


REFUSED = [
    ("wgmma_tma", {"BM": 96}, "BM=96 is not one of 64, 128, 192, 256"),
    ("wgmma_tma", {"BN": 24}, "BN=24 is not one of 16, 32, 48"),
    (
        "wgmma_tma",
        {"BM": 256},
        "BN/2 = 256/2 = 128 accumulators per thread, but with 4 warpgroups 96 fit",
    ),
    (
        "wgmma_tma",
        {"STAGES": 6},
        "STAGES·(BM+BN)·128 = 6·(128+256)·128 = 294,912 B for k-tiles and what else it needs are 295,008 B",
    ),
    ("wgmma_specialized", {"CONSUMERS": 3}, "BM=128 rows are not a multiple of 64 for each of 3 consumers"),
    ("wgmma_specialized", {"BM": 256, "STAGES": 2}, "= 256 accumulators per thread, but with 2 consumers 208 fit"),
    (
        "wgmma_split_k",
        {"BM": 192, "BN": 128, "STAGES": 2, "SPLIT": 1, "UNALIGNED_OPERANDS": 1},
        "192 accumulators and 48 registers of an unaligned operand",
    ),
    (
        "wgmma_split_k",
        {"BM": 256, "BN": 112, "STAGES": 2, "CONSUMERS": 2, "SPLIT": 1, "UNALIGNED_OPERANDS": 1},
        "with 2 consumers 136",
    ),
    ("wgmma_persistent", {"STORE_BOXES": 3}, "STORE_BOXES=3 does not divide the 4 boxes of 64 columns that BN=256 has"),
    ("wgmma_persistent", {"STORE_BOXES": 0}, "STORE_BOXES=0 does not divide the 4 boxes"),
    ("wgmma_persistent", {"STORE_BOXES": 4}, "of shared memory, but a block has 232,448 B"),
    ("wgmma_persistent", {"STORE_MODE": THREADS, "STORE_BOXES": 3}, "STORE_BOXES=3 does not divide the 4 boxes of 64"),
    ("wgmma_persistent", {"STORE_MODE": THREADS, "STORE_BOXES": 4}, "of shared memory, but a block has 232,448 B"),
    ("wgmma_persistent", {"STORE_BOXES": 17}, "STORE_BOXES=17 is not one of 0, 1, 2"),
    (
        "wgmma_cluster",
        {"CLUSTER_M": 4, "CLUSTER_N": 4},
        "CLUSTER_M·CLUSTER_N = 4·4 = 16 blocks in a cluster; 8 are",
    ),
    ("wgmma_stream_k", {"BN": 16, "CLUSTER_M": 4}, "CLUSTER_N·8 must divide BM and CLUSTER_M·8 BN"),
    ("wgmma_cluster", {"BN": 152}, "without SWAP the columns of a tile come in multiples of 16, but BN=152"),
    ("wgmma_cluster", {"TAIL_BN": 128, "SWAP": 1}, "TAIL_BN=128 needs SWAP=0 and SLICES=1"),
    ("wgmma_cluster", {"TAIL_BN": 128, "SLICES": 2}, "TAIL_BN=128 needs SWAP=0 and SLICES=1"),
    ("wgmma_cluster", {"TAIL_BN": 128, "CLUSTER_K": 2}, "TAIL_BN=128 needs CLUSTER_K=1"),
    ("wgmma_cluster", {"BN": 152, "STAGES": 2, "SWAP": 1, "STORE_BOXES": 3}, "the 19 boxes of 8 that BN=152 has"),
    ("wgmma_cluster", {"BN": 128, "TAIL_BN": 128}, "TAIL_BN=128 columns are not fewer than BN=128"),
    ("wgmma_cluster", {"BN": 64, "TAIL_BN": 192}, "TAIL_BN=192 columns are not fewer than BN=64"),
    (
        "wgmma_cluster",
        {"BN": 208, "TAIL_BN": 128},
        "TAIL_BN tiles come in boxes of 64, so BN=208 must be a multiple",
    ),
    ("wgmma_cluster", {"TAIL_BN": 96}, "TAIL_BN=96 is not one of 0, 64, 128, 192"),
    ("wgmma_split_k", {"SPLIT": 3}, "SPLIT=3 is not one of 1, 2, 4, 8"),
    ("wgmma_split_k", {"DEPTH": 4, "STAGES": 12}, "of shared memory, but a block has 232,448 B"),
    ("wgmma_stream_k", {"GROUP": 5}, "GROUP=5 is not one of 1, 2, 4, 6, 8, 12, 16"),
]


@pytest.mark.parametrize(("name", "changes", "reason"), REFUSED, ids=[f"{n}-{c}" for n, c, _ in REFUSED])
def test_an_illegal_configuration_is_refused_with_the_arithmetic(
    name: str, changes: dict[str, int], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        rung_named(name).config(changes)
    assert reason in str(caught.value)


# --- outputs


@pytest.mark.parametrize("name", STORING)
def test_outputs_that_no_map_describes_are_stored_by_threads(name: str) -> None:
    spec = rung_named(name)
    good = Problem(512, 512, 512, BF16, BF16)
    places = (256, 256, 256)
    by_tma = spec.specialize(spec.config(), good, places)
    assert (by_tma["STORE_MODE"], by_tma["STORE_BOXES"] > 0) == (TMA, True)
    for problem, addresses in (
        (good.with_(ldc=513), places), (good, (256, 256, 258)), (good, (256, 256, 264)), (good.with_(n=509), places),
        (good.with_(n=509, ldc=512), places), (good.with_(batch=2, stride_c=512 * 512 + 1), places),
    ):  # fmt: skip
        fitted = spec.specialize(spec.config(), problem, addresses)
        assert fitted == by_tma.with_(STORE_MODE=THREADS), str(problem)
        assert spec.tensor_maps is not None
        assert spec.tensor_maps(problem, fitted).keys() == {"map_a", "map_b"}
        assert spec.geometry(problem, fitted).smem == spec.geometry(good, by_tma).smem
    single = good.with_(m=1, ldc=513)
    assert spec.specialize(spec.config(), single, places)["STORE_MODE"] == TMA, "one row has no step to the next"


@pytest.mark.parametrize("name", STORING)
def test_outputs_of_32_bits_are_stored_by_tma_or_from_registers(name: str) -> None:
    spec = rung_named(name)
    for problem in (Problem(512, 512, 512, BF16, FP32), Problem(512, 509, 512, BF16, FP32)):
        for address in (256, 260):
            fitted = spec.specialize(spec.config(), problem, (256, 256, address))
            by_tma = name == CLUSTER.name and problem.n == 512 and address == 256
            assert fitted["STORE_MODE"] == (TMA if by_tma else DIRECT)
            assert (fitted["STORE_BOXES"] > 0) == by_tma
            assert spec.tensor_maps is not None
            assert ("map_c" in spec.tensor_maps(problem, fitted)) == by_tma


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", STORING)
def test_as_many_boxes_are_staged_as_fit(name: str, seed: int) -> None:
    dice = random.Random(f"boxes {name} {seed}")
    spec, (problem, places) = rung_named(name), random_problem(dice)
    config = random_config(spec, dice)
    fitted = spec.specialize(config, problem, places[:3])
    swap, sliced = config.get("SWAP", 0), config.get("SLICES", 1) * config.get("CLUSTER_K", 1) > 1
    size = problem.out_dtype.itemsize if name == CLUSTER.name else 2
    mode, count, width = fitted["STORE_MODE"], fitted["STORE_BOXES"], 8 if swap else box_width(config, size)
    direct = config.with_(STORE_MODE=DIRECT, STORE_BOXES=0, **({} if mode == TMA else {"TAIL_BN": 0}))
    assert fitted.with_(STORE_MODE=DIRECT, STORE_BOXES=0) == direct, "nothing else is changed"
    assert not spec.illegal(fitted)
    assert spec.tensor_maps is not None
    assert ("map_c" in spec.tensor_maps(problem, fitted)) == (mode == TMA)
    k_tiles = spec.geometry(problem, direct).smem
    box = config["CONSUMERS"] * 64 * width * size  # one for each warpgroup
    assert spec.geometry(problem, fitted).smem == k_tiles + count * box
    assert (mode == DIRECT) == (count == 0)
    if (problem.out_dtype == FP32 and name != CLUSTER.name) or config["STORE_MODE"] == DIRECT or sliced:
        assert mode == DIRECT
        return
    boxes = config["BN"] // width
    counts = [n for n in range(1, boxes + 1) if boxes % n == 0 or (problem.out_dtype == FP32 and not swap)]
    if swap:  # also two of equal parts; more than all where a consumer has several times 64 columns
        several = config["BM"] > 64 * config["CONSUMERS"]
        counts = [n for n in {*counts, *(2 * each for each in counts)} if (several or n <= boxes) and n <= 64]
    fit = [n for n in counts if k_tiles + n * box <= LARGEST_SMEM]
    rows = [places.c + size * (z * problem.stride_c + row * problem.ldc)
            for z in range(min(problem.batch, 2)) for row in range(min(problem.m, 2))]  # fmt: skip
    aligned = all(row % 16 == 0 and (row + size * problem.n) % 16 == 0 for row in rows)
    # Threads store no transposed outputs, and none of 32 bits.
    if (swap or problem.out_dtype == FP32) and not (aligned and config["STORE_MODE"] == TMA):
        assert (mode, count) == (DIRECT, 0)
        return
    assert count == max(fit, default=0)
    assert mode == (DIRECT if not fit else TMA if aligned and config["STORE_MODE"] == TMA else THREADS)


@pytest.mark.parametrize("name", STORING)
def test_the_random_problems_have_all_store_modes(name: str) -> None:
    seen = set()
    for seed in range(120):
        dice = random.Random(f"boxes {name} {seed}")
        spec, (problem, places) = rung_named(name), random_problem(dice)
        seen.add(spec.specialize(random_config(spec, dice), problem, places[:3])["STORE_MODE"])
    assert seen == {DIRECT, THREADS, TMA}


# --- tiles of two widths

TALL = {"BM": 256, "BN": 192, "STAGES": 3, "CLUSTER_M": 1, "CLUSTER_N": 2}
TAIL_TILES = [TALL | {"TAIL_BN": 128}, TALL | {"TAIL_BN": 64}, {"TAIL_BN": 192}, {"TAIL_BN": 128, "CLUSTER_M": 4}]


@pytest.mark.parametrize("changes", TAIL_TILES, ids=str)
def test_tail_tiles_are_for_outputs_that_tma_stores(changes: dict[str, int]) -> None:
    config, good, places = CLUSTER.config(changes), Problem(512, 512, 512, BF16, BF16), (256, 256, 256)
    assert CLUSTER.specialize(config, good, places)["TAIL_BN"] == changes["TAIL_BN"]
    for problem, addresses in ((good.with_(n=509), places), (good.with_(ldc=513), places), (good, (256, 256, 258))):
        fitted = CLUSTER.specialize(config, problem, addresses)
        assert (fitted["TAIL_BN"], fitted["STORE_MODE"]) == (0, THREADS), str(problem)
    of_32_bits = CLUSTER.specialize(config, good.with_(out_dtype=FP32), places)
    assert (of_32_bits["TAIL_BN"], of_32_bits["STORE_MODE"]) == (changes["TAIL_BN"], TMA)
    at_odd_rows = CLUSTER.specialize(config, good.with_(out_dtype=FP32, n=510), places)
    assert (at_odd_rows["TAIL_BN"], at_odd_rows["STORE_MODE"]) == (0, DIRECT)
    by_threads = CLUSTER.specialize(CLUSTER.config(changes | {"STORE_MODE": THREADS}), good, places)
    assert (by_threads["TAIL_BN"], by_threads["STORE_MODE"]) == (0, THREADS)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("changes", TAIL_TILES, ids=str)
def test_b_of_two_widths_comes_in_boxes_of_64_columns(changes: dict[str, int], layout: str) -> None:
    """Both widths are multiples of 64; with one width, a K-major k-tile is one box."""
    problem, config = of_layout(layout, 512, 512, 512), CLUSTER.config(changes)
    assert CLUSTER.tensor_maps is not None
    maps, alike = (CLUSTER.tensor_maps(problem, each) for each in (config, config.with_(TAIL_BN=0)))
    assert maps["map_b"].box == (64, 64 // config["CLUSTER_M"], 1)
    assert alike["map_b"].box == (64, (config["BN"] if problem.trans_b else 64) // config["CLUSTER_M"], 1)
    assert {name: each for name, each in maps.items() if name != "map_b"} == {
        name: each for name, each in alike.items() if name != "map_b"
    }


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("changes", TAIL_TILES, ids=str)
def test_a_grid_has_room_for_tail_tiles_alone(changes: dict[str, int], batch: int) -> None:
    """C may consist of tail tiles only. 16 bytes tell the threads of a block how many there are."""
    config, problem = CLUSTER.config(changes), Problem(1000, 3001, 512, BF16, FP32, batch=batch)
    down = ceil_div(1000, config["BM"] * config["CLUSTER_M"])
    across = ceil_div(3001, config["TAIL_BN"] * config["CLUSTER_N"])
    cluster = config["CLUSTER_M"] * config["CLUSTER_N"]
    launched = CLUSTER.geometry(problem, config)
    assert launched.grid == (down * across * batch * cluster, 1, 1)
    assert launched.cluster == (cluster, 1, 1)
    assert launched.smem == CLUSTER.geometry(problem, config.with_(TAIL_BN=0)).smem + 16
