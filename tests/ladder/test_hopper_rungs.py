"""The Hopper rungs without a GPU: their machine code, their budgets, their tensor maps and their grids.

They cannot be run here, so what a GPU would be asked to run is looked at. Compiling all of them takes minutes: each
configuration is compiled in two combinations of types and layouts that together have each side of each choice.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count, product
from typing import Any

import pytest

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.errors import ConfigError, UnsupportedError
from gemmsmith.kernels.hopper import BOX, BOX_ROW, LADDER, LARGEST_SMEM, store_width
from gemmsmith.kernels.registry import rung_named, rungs, rungs_for
from gemmsmith.kernels.spec import Config, Geometry, KernelSpec, TensorMap
from gemmsmith.problem import BF16, FP16, FP32, DType, Problem, ceil_div
from gemmsmith.run.binding import Addresses, aligned_config, bind, fitted_config, workspace_bytes
from gemmsmith.run.tensor_map import check_tensor_map, decode_simulated, encode_simulated
from mapped_kernel import fake_compile

REGISTERS = 65_536  # of an SM
WARP_GROUP = 128
NAMES = [spec.name for spec in LADDER]
SPECIALIZED = [name for name in NAMES if name not in ("wgmma_tma", "wgmma_split_k")]
# Two that cover both ways in which each operand may lie, both inputs, and outputs of 16 and of 32 bits; and two others.
COMBINATIONS = (
    (("NN", BF16, BF16), ("TT", FP16, FP32)),
    (("NT", FP16, FP16), ("TN", BF16, FP32)),
)


@dataclass(frozen=True)
class Case:
    """A rung in a configuration that was fitted to a problem of aligned operands."""

    name: str
    config: Config
    problem: Problem

    @property
    def spec(self) -> KernelSpec:
        return rung_named(self.name)

    def __str__(self) -> str:
        p = self.problem
        return f"{self.name}-{self.config}-{p.layout}-{p.dtype.name}-{p.out_dtype.name}-{p.bias}{p.activation}"

    def value(self, name: str, otherwise: int = 1) -> int:
        return dict(self.config).get(name, otherwise)

    @property
    def consumers(self) -> int:
        """Groups that multiply: in rung 16 every one, with 64 rows each."""
        return self.value("CONSUMERS", self.config["BM"] // 64)

    @property
    def sums(self) -> int:
        """Of a thread that multiplies."""
        return self.config["BM"] * self.config["BN"] // (WARP_GROUP * self.consumers)

    @property
    def threads(self) -> int:
        return WARP_GROUP * (self.consumers + (self.name != "wgmma_tma"))

    @property
    def swapped(self) -> bool:
        return bool(self.value("SWAP", 0))

    @property
    def sides(self) -> tuple[tuple[int, bool, int], tuple[int, bool, int]]:
        """Of A and of B: how many rows or columns a slice has, whether it lies along k, who share it."""
        of_a, of_b = self.config["BM"], self.config["BN"]
        if self.swapped:
            of_a, of_b = of_b, of_a
        return ((of_a, not self.problem.trans_a, self.value("CLUSTER_N")),
                (of_b, self.problem.trans_b, self.value("CLUSTER_M")))  # fmt: skip

    @property
    def boxes(self) -> tuple[int, int]:
        """How many copies of boxes a slice of A, and of B, takes."""
        one, other = (1 if along_k else ceil_div(rows, BOX) for rows, along_k, _ in self.sides)
        return one, other

    @property
    def slice_bytes(self) -> int:
        return sum(BOX_ROW * (rows if along_k else BOX * ceil_div(rows, BOX)) for rows, along_k, _ in self.sides)

    @property
    def stage_bytes(self) -> int:
        return self.value("DEPTH") * self.slice_bytes

    @property
    def before_barriers(self) -> int:
        """Bytes of shared memory in front of the barriers, as each file's opening says."""
        used = self.config["STAGES"] * self.stage_bytes
        used += self.consumers * self.value("TMA_STORE", 0) * 64 * store_width(self.config) * 2
        return used + (4 * self.config["BM"] * (self.config["BN"] + 4) if self.name == "wgmma_split_k" else 0)


def problem_of(layout: str, dtype: DType, out: DType, **changes: Any) -> Problem:
    return Problem(512, 512, 512, dtype, out, trans_a=layout[0] == "T", trans_b=layout[1] == "T", **changes)


def case(name: str, config: Config, problem: Problem) -> Case:
    return Case(name, aligned_config(rung_named(name), config, problem), problem)


def configurations(name: str) -> list[Config]:
    spec = rung_named(name)
    return list(dict.fromkeys((spec.config(), *(preset.config for preset in spec.presets))))


def compiled_cases() -> Iterator[Case]:
    """Every default and preset; the small kernels of rung 20, which compile at once, in all four layouts."""
    turn = count()
    for name in NAMES:
        for config in configurations(name):
            pairs = COMBINATIONS if name == "wgmma_split_k" else (COMBINATIONS[next(turn) % 2],)
            for layout, dtype, out in (combination for pair in pairs for combination in pair):
                yield case(name, config, problem_of(layout, dtype, out))
    deep = rung_named("wgmma_split_k").config({"STAGES": 4, "DEPTH": 2, "CONSUMERS": 1})
    yield case("wgmma_split_k", deep, problem_of("NN", BF16, BF16))
    both = rung_named("wgmma_cluster").config({"BM": 128, "BN": 128, "CLUSTER_M": 2, "CLUSTER_N": 2, "CONSUMERS": 2})
    yield case("wgmma_cluster", both, problem_of("NN", FP16, FP16))


CASES = list(compiled_cases())
EPILOGUES = [
    case("wgmma_tma", rung_named("wgmma_tma").config(), problem_of("NN", BF16, BF16, bias="row", activation="relu")),
    case("wgmma_specialized", rung_named("wgmma_specialized").config(),
         problem_of("NT", FP16, FP32, bias="column", activation="gelu")),
    case("wgmma_persistent", rung_named("wgmma_persistent").config(),
         problem_of("TN", BF16, BF16, bias="column", activation="silu")),
    case("wgmma_cluster", rung_named("wgmma_cluster").config(),
         problem_of("NT", BF16, BF16, bias="row", activation="gelu")),
    case("wgmma_split_k", rung_named("wgmma_split_k").config(preset="skinny"),
         problem_of("NT", FP16, FP16, bias="column", activation="relu")),
    case("wgmma_stream_k", rung_named("wgmma_stream_k").config(),
         problem_of("TT", FP16, FP16, bias="row", activation="silu")),
]  # fmt: skip
each_case = pytest.mark.parametrize("it", CASES, ids=str)


@cache
def built(it: Case) -> CompiledKernel:
    return compile_for(it.spec, it.config, it.problem, "sm_90")


@cache
def code(it: Case) -> Sass:
    return disassemble(built(it))


# --- machine code


def test_every_choice_is_compiled_at_least_once() -> None:
    assert [spec.name for spec in rungs() if spec.arch_specific == 90] == NAMES
    for name in NAMES:
        mine = [it for it in CASES if it.name == name]
        assert {it.problem.dtype for it in mine} == {FP16, BF16}
        assert {it.problem.out_dtype.itemsize for it in mine} == {2, 4}
        assert {it.problem.trans_a for it in mine} == {it.problem.trans_b for it in mine} == {False, True}
    assert {it.problem.layout for it in CASES} == {"NN", "NT", "TN", "TT"}


@each_case
def test_products_are_warp_group_products_of_the_whole_tile(it: Case) -> None:
    loop = code(it).main_loop()
    assert loop is not None
    found = [i for i in loop.instructions if i.base == "HGMMA"]
    rows = it.config["BM"] // 64 // it.consumers
    assert len(found) == it.value("DEPTH") * (64 // 16) * rows
    assert code(it).counts["HGMMA"] == len(found), "there is one loop over k"
    suffix = ".BF16" if it.problem.dtype == BF16 else ""
    assert {i.opcode for i in found} == {f"HGMMA.64x{it.config['BN']}x16.F32{suffix}"}
    a, b = it.sides[::-1] if it.swapped else it.sides
    for instruction in found:
        assert (".tnspA" in instruction.text) != a[1]
        assert (".tnspB" in instruction.text) != b[1]
    assert not code(it).counts["HMMA"]


@each_case
def test_one_thread_asks_the_copy_engine_for_whole_slices(it: Case) -> None:
    asked = [i.opcode for i in code(it).instructions if i.base == "UTMALDG"]
    many = sum(n for n, (_, _, parts) in zip(it.boxes, it.sides, strict=True) if parts > 1) * it.value("DEPTH")
    single = sum(n for n, (_, _, parts) in zip(it.boxes, it.sides, strict=True) if parts == 1) * it.value("DEPTH")
    places = 2 if it.name == "wgmma_tma" else 1  # before the loop as well
    assert asked.count("UTMALDG.3D.MULTICAST") == places * many
    assert asked.count("UTMALDG.3D") == places * single
    assert not {"LDGSTS", "LDSM"} & code(it).counts.keys(), "no thread moves operands"


@each_case
def test_outputs_leave_through_the_copy_engine_where_they_are_to(it: Case) -> None:
    counts, boxes = code(it).counts, it.value("TMA_STORE", 0)
    assert (counts["UTMASTG"] > 0) == (counts["STSM"] > 0) == (boxes > 0)
    assert boxes == 0 or counts["UTMASTG"] % boxes == 0
    assert counts["STG"] > 0, "what a map does not describe, or beta needs, is stored from registers"
    assert it.name in ("wgmma_tma", "wgmma_specialized", "wgmma_split_k") or (boxes > 0) == (
        it.problem.out_dtype.itemsize == 2
    )


@pytest.mark.parametrize("it", [*CASES, *EPILOGUES], ids=str)
def test_nothing_is_spilled_and_the_compiler_does_not_complain(it: Case) -> None:
    used, log = built(it).resources, built(it).log
    if it.sums > 128 and it.problem.activation in ("gelu", "silu"):
        # 192 sums leave 40 registers, and these functions take more: some are put aside, after the loop over k.
        assert 0 < used.spill_stores <= 256
        loop = code(it).main_loop()
        assert loop is not None
        assert not {"STL", "LDL"} & loop.counts.keys()
    else:
        assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0)
    for complaint in ("C75", "setmaxnreg", "serialized", "warning", "Potential Performance Loss"):
        assert complaint not in log, log
    assert "ptxas info" in log, "the log has what ptxas says"
    assert used.registers * it.threads <= REGISTERS
    assert used.static_smem == 0


@each_case
def test_no_thread_touches_local_memory(it: Case) -> None:
    assert not [i.text for i in code(it).instructions if i.base in ("STL", "LDL")]


@each_case
def test_registers_change_hands_and_are_no_more_than_there_are(it: Case) -> None:
    found = {i.opcode.split(".")[1]: int(i.operands[-1], 16) for i in code(it).instructions if i.base == "USETMAXREG"}
    if it.name not in SPECIALIZED or it.consumers == 1:
        assert not found
        return
    assert found.keys() == {"TRY_ALLOC", "DEALLOC"}
    assert found["DEALLOC"] < built(it).resources.registers < found["TRY_ALLOC"]
    assert WARP_GROUP * (found["DEALLOC"] + it.consumers * found["TRY_ALLOC"]) <= REGISTERS
    assert all(n % 8 == 0 for n in found.values())


@pytest.mark.parametrize("it", [*CASES, *EPILOGUES], ids=str)
def test_bias_and_activation_are_in_the_code_where_asked_for(it: Case) -> None:
    """Both activations with a curve divide, and bias is all that is read as constant data."""
    assert ("div.rn.f32" in built(it).ptx) == (it.problem.activation in ("gelu", "silu"))
    assert ("ld.global.nc" in built(it).ptx) == bool(it.problem.bias)


@each_case
def test_shared_memory_is_as_the_opening_says_and_as_the_code_addresses_it(it: Case) -> None:
    geometry = it.spec.geometry(it.problem, it.config)
    stages, extra = it.config["STAGES"], 8 if it.name == "wgmma_split_k" else 0
    assert geometry.smem == it.before_barriers + 16 * stages + extra <= LARGEST_SMEM
    assert geometry.threads == it.threads
    places = {int(offset, 16) for i in code(it).instructions if i.base == "SYNCS"
              for offset in re.findall(r"\+(0x[0-9a-f]+)\]", i.text)}  # fmt: skip
    kinds = 1 if it.name == "wgmma_tma" else 2
    assert places == {it.before_barriers + 8 * n for n in range(kinds * stages + extra // 8)}
    assert max(places) + 8 <= geometry.smem


@pytest.mark.parametrize("name", NAMES)
def test_the_opening_states_the_budget(name: str) -> None:
    budget = re.search(r"// Budget +(.*?)\n// Needs", rung_named(name).code, re.S)
    assert budget is not None
    text = " ".join(line.strip("/ ") for line in budget[1].splitlines())
    slices = "STAGES * DEPTH * (BM + BN) * 128 bytes" if name == "wgmma_split_k" else "STAGES * (BM + BN) * 128 bytes"
    assert slices in text or text.startswith("As 19")
    for config in configurations(name):
        aligned = case(name, config, problem_of("NT", BF16, FP32))  # both lie along k
        assert aligned.config["STAGES"] * aligned.stage_bytes == (
            config["STAGES"] * aligned.value("DEPTH") * (config["BM"] + config["BN"]) * 128
        )


@each_case
def test_a_barrier_expects_the_bytes_of_all_boxes(it: Case) -> None:
    """What the code tells the barrier, against what the maps' boxes bring, from all blocks that share a slice."""
    assert it.spec.tensor_maps is not None
    maps = it.spec.tensor_maps(it.problem, it.config)
    brought = 0
    for name, boxes, (_, _, parts) in zip(("map_a", "map_b"), it.boxes, it.sides, strict=True):
        brought += boxes * parts * math.prod(maps[name].box) * it.problem.dtype.itemsize
    assert brought == it.slice_bytes
    expected = {int(n) for n in expected_bytes(built(it).ptx)}
    sums = {4 * it.config["BM"] * it.config["BN"]} if it.name == "wgmma_split_k" else set()
    assert expected == {it.value("DEPTH") * brought} | sums


def expected_bytes(ptx: str) -> Iterator[str]:
    for operand in re.findall(r"expect_tx\S* _, \[\S+\], (\S+);", ptx):
        if operand.startswith("%"):
            (operand,) = re.findall(rf"mov\.[bu]32\s+{re.escape(operand)}, (\d+);", ptx)
        yield operand


# --- tensor maps and launches of any problem


class Hopper:
    """A GPU that takes any launch and keeps the maps readable."""

    kind, name, arch = "gpu", "fake", "sm_90"

    def load(self, compiled: CompiledKernel) -> CompiledKernel:
        return compiled

    def encode_tensor_map(self, described: TensorMap, address: int) -> bytes:
        check_tensor_map(described, address)
        return encode_simulated(described, address)

    def blocks_at_once(self, _loaded: object, geometry: Geometry) -> int:
        cluster = geometry.cluster[0]
        return 132 // cluster * cluster


def random_problem(dice: random.Random) -> tuple[Problem, Addresses]:
    """Any layout, sizes, paddings, strides and addresses; most of them such that a map cannot describe them."""
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
    """A legal one, which fits that problem's layout; parameters are drawn until it is."""
    while True:
        drawn = Config(tuple((p.name, dice.choice(p.legal)) for p in spec.parameters))
        if spec.illegal(drawn):
            continue
        if fits is None or spec.geometry(fits, aligned_config(spec, drawn, fits)).smem <= LARGEST_SMEM:
            return drawn


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("name", NAMES)
def test_any_problem_is_described_as_tma_takes_it(name: str, seed: int) -> None:
    dice = random.Random(f"{name} {seed}")
    spec, (problem, places) = rung_named(name), random_problem(dice)
    device: Any = Hopper()
    config = random_config(spec, dice)
    workspace = 1 << 44
    if spec.geometry(problem, fitted_config(spec, config, problem, places)).smem > LARGEST_SMEM:
        with pytest.raises(ConfigError, match=f"in layout {problem.layout}: it needs .* of shared memory"):
            bind(device, spec, config, problem, places, workspace, fake_compile)
        return
    *_, last = bind(device, spec, config, problem, places, workspace, fake_compile)  # checks every map by TMA's rules
    arguments = {a.role: raw for a, raw in zip(spec.signature.arguments, last.launch.arguments, strict=True)}
    end = workspace + workspace_bytes(spec, problem, places)
    for role, (rows, cols), own, many in (("mapA", problem.a_shape, places.a, problem.copies[0]),
                                          ("mapB", problem.b_shape, places.b, problem.copies[1])):  # fmt: skip
        described, address = decode_simulated(arguments[role])
        if problem.alpha == 0:  # nothing is read through it; it must describe memory that is there
            assert address == places.c // 16 * 16
            continue
        assert described.extents == (cols, rows, many)
        assert described.box[0] * 2 == described.swizzle == BOX_ROW
        assert described.box[1] % 8 == 0
        assert described.box[2] == 1
        assert address == own or workspace <= address < end
        assert address % 16 == 0
        last_byte = (many - 1) * described.strides[1] + (rows - 1) * described.strides[0] + cols * 2
        assert address == own or address + last_byte <= end
    if "mapC" in arguments and any(arguments["mapC"]):
        described, address = decode_simulated(arguments["mapC"])
        assert (address, described.extents) == (places.c, (problem.n, problem.m, problem.batch))
        assert described.dtype == problem.out_dtype
        assert described.strides[0] == problem.ldc * 2 or problem.m == 1


def model(spec: KernelSpec, config: Config, problem: Problem, launched: Geometry) -> list[tuple[int, int, int, int]]:
    """Which (row, column, product, part of K) each block computes: the sources' arithmetic, block by block."""
    value = dict(config)
    bm, bn = config["BM"], config["BN"]
    wide, high = value.get("CLUSTER_N", 1), value.get("CLUSTER_M", 1)
    rows, cols = (problem.n, problem.m) if value.get("SWAP") else (problem.m, problem.n)
    down, across = ceil_div(rows, bm * high), ceil_div(cols, bn * wide)
    found = []
    for block, z in product(range(launched.grid[0]), range(launched.grid[2])):
        if spec.name == "wgmma_split_k":
            split = config["SPLIT"]
            tile = block // split
            found.append((tile % down, tile // down, z, block % split))
        elif not spec.persistent:
            found.append((*grouped_place(block, 8, down, across), z, 0))
        else:
            cluster = wide * high
            rank = block % cluster
            for t in range(block // cluster, down * across * problem.batch, launched.grid[0] // cluster):
                of, at = divmod(t, down * across)
                row, col = grouped_place(at, config["GROUP"], down, across)
                found.append((row * high + rank % high, col * wide + rank // high, of, 0))
    return found


def grouped_place(index: int, group: int, down: int, across: int) -> tuple[int, int]:
    """grouped_order.cuh."""
    strip = group * across
    top = index // strip * group
    height = min(down - top, group)
    return top + index % strip % height, index % strip // height


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", [name for name in NAMES if name != "wgmma_stream_k"])  # hands out slices, not tiles
def test_the_grid_covers_every_tile_once(name: str, seed: int) -> None:
    dice = random.Random(f"grid {name} {seed}")
    spec, problem = rung_named(name), Problem(dice.randint(1, 3000), dice.randint(1, 3000), 64, BF16, BF16,
                                              batch=dice.choice((1, 1, 3)))  # fmt: skip
    config = aligned_config(spec, random_config(spec, dice, problem), problem)
    device: Any = Hopper()
    *_, step = bind(device, spec, config, problem, Addresses(256, 512, 1024), 0, fake_compile)
    launched = step.launch.geometry
    cluster = math.prod(launched.cluster)
    assert launched.grid[0] % cluster == 0
    assert cluster == dict(config).get("SPLIT", dict(config).get("CLUSTER_M", 1) * dict(config).get("CLUSTER_N", 1))
    assert launched.early, "it waits for the launch before it by itself"
    found = model(spec, config, problem, launched)
    assert len(found) == len(set(found)), "no tile is computed twice"
    rows, cols = (problem.n, problem.m) if dict(config).get("SWAP") else (problem.m, problem.n)
    needed = set(product(range(ceil_div(rows, config["BM"])), range(ceil_div(cols, config["BN"])),
                         range(problem.batch), range(dict(config).get("SPLIT", 1))))  # fmt: skip
    assert needed <= set(found)
    beyond = set(found) - needed
    assert len(beyond) <= len(found) - len(needed)
    assert not beyond or dict(config).get("CLUSTER_M", 1) * dict(config).get("CLUSTER_N", 1) > 1


# --- refusals


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", NAMES)
def test_another_architecture_is_refused(name: str, arch: str) -> None:
    spec = rung_named(name)
    with pytest.raises(UnsupportedError) as caught:
        compile_for(spec, spec.config({"TMA_STORE": 0} if spec.persistent else {}), problem_of("NN", BF16, FP32), arch)
    assert f"{name} uses instructions that only sm_90 has, so it cannot be compiled for {arch}" in caught.value.message
    assert spec not in rungs_for(int(arch.removeprefix("sm_")))


def test_sm_90_is_compiled_for_sm_90a() -> None:
    assert {built(it).arch for it in CASES[:2]} == {"sm_90a"}
    assert set(LADDER) <= set(rungs_for(90))


REFUSED = [
    ("wgmma_tma", {"BM": 96}, "BM=96 is not one of 64, 128, 192, 256"),
    ("wgmma_tma", {"BN": 24}, "BN=24 is not one of 16, 32, 48"),
    ("wgmma_tma", {"BM": 256}, "BM·BN/(128·4) = 128 sums a thread, but with 4 consumers 96 fit into registers"),
    ("wgmma_tma", {"STAGES": 6}, "STAGES·(BM+BN)·128 = 6·(128+256)·128 B for slices"),
    ("wgmma_specialized", {"CONSUMERS": 3}, "BM = 128 rows are not a multiple of 64 for each of 3 consumers"),
    ("wgmma_specialized", {"BM": 256, "STAGES": 2}, "= 256 sums a thread, but with 2 consumers 208 fit"),
    ("wgmma_persistent", {"TMA_STORE": 3}, "TMA_STORE = 3 does not divide BN = 256 into its 4 boxes of 64"),
    ("wgmma_persistent", {"TMA_STORE": 4}, "of shared memory, but a block has 232,448 B"),
    ("wgmma_cluster", {"CLUSTER_M": 4, "CLUSTER_N": 4}, "a cluster of 4·4 blocks; 8 are the most"),
    ("wgmma_cluster", {"BN": 16, "CLUSTER_M": 4}, "CLUSTER_N·8 must divide BM and CLUSTER_M·8 BN"),
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


@pytest.mark.parametrize("name", SPECIALIZED[1:])
def test_outputs_that_no_map_describes_are_stored_from_registers(name: str) -> None:
    spec = rung_named(name)
    good = problem_of("NN", BF16, BF16)
    places = (256, 256, 256)
    assert spec.fit(spec.config(), good, places)["TMA_STORE"] > 0
    for problem, addresses in (
        (good.with_(out_dtype=FP32), places), (good.with_(ldc=513), places), (good, (256, 256, 258)),
        (good.with_(n=509), places), (good.with_(batch=2, stride_c=512 * 512 + 1), places),
    ):  # fmt: skip
        assert spec.fit(spec.config(), problem, addresses)["TMA_STORE"] == 0, str(problem)
    single = good.with_(m=1, ldc=513)
    assert spec.fit(spec.config(), single, places)["TMA_STORE"] > 0, "one row has no step to the next"
