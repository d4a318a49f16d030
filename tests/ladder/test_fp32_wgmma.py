"""fp32 by wgmma without a GPU: the machine code of both rungs, their launches and their workspace."""

from __future__ import annotations

import random
import re
import struct
from functools import cache
from typing import Any

import pytest
from hopper_device import Hopper
from mapped_kernel import fake_compile

from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.sass import disassemble
from gemmsmith.errors import ConfigError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.constraints import LARGEST_SMEM
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP16, Problem
from gemmsmith.prologue.align_copy import ALIGN_COPY
from gemmsmith.prologue.split_bf16 import SPLIT_BF16
from gemmsmith.prologue.split_fp16 import SPLIT_FP16, SPLIT_FP16_CLUSTER
from gemmsmith.prologue.transpose import TRANSPOSE
from gemmsmith.prologue.zero_workspace import ZERO_WORKSPACE
from gemmsmith.run.tensor_map import decode_simulated

BF16X6, FP16X3 = LADDER = rung_named("fp32_wgmma_bf16x6"), rung_named("fp32_wgmma_fp16x3")
PRODUCTS = {"fp32_wgmma_bf16x6": 6, "fp32_wgmma_fp16x3": 3}
WORKSPACE = 1 << 44
# Each configuration with both layouts of each operand.
CASES = [(spec, preset.config, layout)
         for spec in LADDER for preset, layout in zip(spec.presets, ("NN", "TT"), strict=True)]  # fmt: skip
each_case = pytest.mark.parametrize(("spec", "config", "layout"), CASES,
                                    ids=[f"{s.name}-{c['BN']}-{layout}" for s, c, layout in CASES])  # fmt: skip


def problem_of(layout: str, **changes: Any) -> Problem:
    return Problem(512, 384, 256, trans_a=layout[0] == "T", trans_b=layout[1] == "T", **changes)


@cache
def built(spec: KernelSpec, config: Config, layout: str) -> CompiledKernel:
    return compile_for(spec, config, problem_of(layout), "sm_90")


@each_case
def test_each_k_tile_accumulates_from_zero(spec: KernelSpec, config: Config, layout: str) -> None:
    code = disassemble(built(spec, config, layout))
    found = [i for i in code.instructions if i.base == "HGMMA"]
    tiles = config["BM"] // 64 // config["CONSUMERS"]
    assert len(found) == PRODUCTS[spec.name] * (64 // 16) * tiles
    kind = ".BF16" if spec is BF16X6 else ""
    assert {i.opcode for i in found} == {f"HGMMA.64x{config['BN']}x16.F32{kind}"}
    started = [i for i in found if "!UPT" in i.text]
    assert len(started) == tiles, "the first product of each tile overwrites the accumulators"
    assert {".tnspA" in i.text for i in found} == {layout[0] == "T"}
    assert {".tnspB" in i.text for i in found} == {layout[1] == "N"}
    assert code.counts["FADD"] >= tiles * config["BN"] // 2, "accumulators are added outside the tensor core"
    assert code.counts["UTMALDG"] > 0
    assert not {"LDSM", "LDGSTS", "HMMA"} & code.counts.keys()


@pytest.mark.parametrize(("parts", "weight"), [(3, 2), (2, 1)])
def test_the_products_are_those_that_count_and_the_largest_comes_last(parts: int, weight: int) -> None:
    """Part p of one and q of the other count where p + q is small; only a GPU's results would show another list."""
    text = (BF16X6.source.parent / "include" / "tile" / "split_terms.cuh").read_text(encoding="utf-8")
    listed = re.search(rf"struct Split<{parts}>.*?all\[\] = \{{(.*?)\}};", text, re.S)
    assert listed is not None
    products = [(int(p), int(q)) for p, q in re.findall(r"\{(\d), (\d)\}", listed[1])]
    assert set(products) == {(p, q) for p in range(parts) for q in range(parts) if p + q <= weight}
    assert len(products) == len(set(products))
    assert products[-1] == (0, 0)


TOUCHES = {"LDG", "STG", "RED", "REDG", "ATOM", "ATOMG", "UTMALDG"}


@each_case
def test_nothing_is_read_before_griddepcontrol_wait(spec: KernelSpec, config: Config, layout: str) -> None:
    names = [i.base for i in disassemble(built(spec, config, layout)).instructions]
    assert not TOUCHES & set(names[: names.index("ACQBULK")])


PROLOGUE = [SPLIT_BF16, SPLIT_FP16, SPLIT_FP16_CLUSTER, ZERO_WORKSPACE, ALIGN_COPY, TRANSPOSE]


@pytest.mark.parametrize("spec", PROLOGUE, ids=lambda spec: spec.name)
def test_kernels_of_prologues_wait_as_well(spec: KernelSpec) -> None:
    compiled = compile_for(spec, spec.config(), Problem(1, 1, 1, spec.dtypes[0], spec.out_dtypes[0]), "sm_90")
    names = [i.base for i in disassemble(compiled).instructions]
    assert not TOUCHES & set(names[: names.index("ACQBULK")])
    assert TOUCHES & set(names)


@each_case
def test_no_spills_and_no_serialised_wgmma(spec: KernelSpec, config: Config, layout: str) -> None:
    used, log = built(spec, config, layout).resources, built(spec, config, layout).log
    assert (used.spill_stores, used.spill_loads, used.stack, used.static_smem) == (0, 0, 0, 0)
    for complaint in ("C75", "setmaxnreg", "serialized", "warning"):
        assert complaint not in log, log
    assert spec.geometry(problem_of(layout), config).smem <= LARGEST_SMEM


def test_split_bf16_loads_and_stores_vectors_without_spills() -> None:
    split = compile_for(SPLIT_BF16, SPLIT_BF16.config(), Problem(1, 1, 1), "sm_90")
    assert split.resources.spill_stores == 0
    code = disassemble(split)
    assert sum(i.opcode.startswith("STG.E.128") for i in code.instructions) == 4 * 3  # four chunks, three parts
    assert sum(".128" in i.opcode for i in code.instructions if i.base == "LDG") == 4 * 2


def random_problem(dice: random.Random) -> tuple[Problem, Addresses]:
    m, n, k = (dice.choice((1, 7, 64, 65, 300, 4097)) for _ in range(3))
    tight = Problem(m, n, k, trans_a=dice.random() < 0.5, trans_b=dice.random() < 0.5)
    pads = [dice.choice((0, 0, 1, 24)) for _ in range(3)]
    problem = tight.with_(batch=dice.choice((1, 1, 3)), lda=tight.lda + pads[0], ldb=tight.ldb + pads[1],
                          ldc=tight.ldc + pads[2], stride_a=dice.choice((-1, 0)), stride_b=-1)  # fmt: skip
    return problem, Addresses(*(base + 4 * dice.choice((0, 1)) for base in (1 << 20, 1 << 30, 1 << 40)))


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("spec", LADDER, ids=lambda spec: spec.name)
def test_parts_do_not_overlap_and_maps_describe_them(spec: KernelSpec, seed: int) -> None:
    problem, places = random_problem(random.Random(f"{spec.name} {seed}"))
    device: Any = Hopper()
    steps = bind(device, spec, spec.config(), problem, places, WORKSPACE, fake_compile)
    names = [step.loaded.key.split()[0] for step in steps]
    six = ["split_bf16", "fp32_wgmma_bf16x6"]
    assert names == (six if spec is BF16X6 else ["zero_workspace", "split_fp16_cluster", *six, "fp32_wgmma_fp16x3"])
    end = WORKSPACE + workspace_bytes(spec, spec.config(), problem, places)
    for step in (step for step in steps if "wgmma" in step.loaded.key):
        mine = rung_named(step.loaded.key.split()[0])
        arguments = {a.role: raw for a, raw in zip(mine.signature.arguments, step.launch.arguments, strict=True)}
        spans = []
        parts = 3 if mine is BF16X6 else 2
        for role, (rows, cols), copies in (("mapA", problem.a_shape, problem.copies[0]),
                                           ("mapB", problem.b_shape, problem.copies[1])):  # fmt: skip
            described, address = decode_simulated(arguments[role])
            assert described.dtype == (BF16 if parts == 3 else FP16)
            assert described.extents == (cols, rows, parts * copies)
            line = -(-cols // 8) * 16
            assert described.strides == (line, rows * line)
            spans.append((address, address + parts * copies * rows * line))
        assert spans[0][1] <= spans[1][0]
        assert spans[1][1] <= end
        # The fallback's parts must not overwrite the verdict that it still has to read.
        assert spans[0][0] >= WORKSPACE + (4096 if spec is FP16X3 else 0)
        if mine is BF16X6:  # accumulators that are not finite are recomputed from the operands
            assert struct.unpack("<Q", arguments["A"])[0] == places.a
            assert struct.unpack("<q", arguments["ldb"])[0] == problem.ldb
        shared = struct.unpack("<Q", arguments["workspace"])[0]
        assert shared == (WORKSPACE if spec is FP16X3 else 0)


@pytest.mark.parametrize("spec", LADDER, ids=lambda spec: spec.name)
def test_without_a_product_nothing_is_split(spec: KernelSpec) -> None:
    device: Any = Hopper()
    for changes in ({"alpha": 0.0}, {"k": 0}):
        problem = problem_of("NN").with_(**changes)
        assert workspace_bytes(spec, spec.config(), problem, Addresses(1 << 20, 1 << 30, 1 << 40)) == 0
        assert len(bind(device, spec, spec.config(), problem, Addresses(1 << 20, 1 << 30, 1 << 40), 0,
                        fake_compile)) == 1  # fmt: skip


@pytest.mark.parametrize(("changes", "reason"), [
    ({"STAGES": 2}, "STAGES=2 has no room for the 3 parts"),
    ({"BN": 256, "STAGES": 4}, "= 128 accumulators per thread, 3 registers each"),
    ({"BM": 192}, "BM=192 rows are not a multiple"),
])  # fmt: skip
def test_an_illegal_configuration_is_refused(changes: dict[str, int], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason.replace("(", r"\(")):
        BF16X6.config(changes)
