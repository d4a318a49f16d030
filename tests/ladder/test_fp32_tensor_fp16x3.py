"""fp16x3: the bits of its rule, its accuracy, and the fallback."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from fp32_tensor_rule import fp32_tensor_reference
from ptx_only import copy_kernel, find_file
from rung_launch import bits, compiler, launched, tile, verified
from rung_launch import small as small_rung
from split_fp16_rule import Lines, by_fp16_parts, fp16x3_accepts, fp16x3_reference, split
from test_fp32_tensor import aligned, checking, errors, load_conflicts, problem
from test_large import KINDS, Large, problem_for

import gemmsmith
from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import render_kernel
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.errors import ConfigError, UnsupportedError, UsageError
from gemmsmith.explain.sampling import count_launch
from gemmsmith.fills import Array, Operands, operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP16, FP32, Problem
from gemmsmith.prologue.split_fp16 import split_fp16_prologue
from gemmsmith.prologue.zero_workspace import FLAG_BYTES
from gemmsmith.run.device import Launch, Step
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.oracles.fma import ordered_fma_reference

NAME, OTHER = "fp32_tensor_fp16x3", "fp32_tensor_bf16x6"
LAYOUTS = ("NN", "NT", "TN", "TT")


def small(**changes: int) -> tuple[KernelSpec, Config]:
    """Four warps, two fragments of A and two groups of B each; k-tiles of two steps."""
    spec, config = small_rung(NAME)
    return spec, spec.config(dict(config) | changes)


def same_bits(config: Config, p: Problem, fill: str, seed: int = 5) -> None:
    data = operands(p, fill, seed)
    assert fp16x3_accepts(p, data.a, data.b)
    expected = fp16x3_reference(p, data.a, data.b, data.c, config["PROMOTE"])
    assert np.array_equal(bits(launched(small()[0], config, p, data)), bits(expected))


# --- right, in every layout


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ragged_edges(layout: str) -> None:
    """More than one tile in M and N, and more k-tiles than stages in K."""
    spec, config = small()
    p = aligned(problem((67, 70, 117), layout, alpha=-1.0, beta=2.0))
    device = checking()
    verified(spec, config, p, device=device, mode="exact")
    assert not load_conflicts(device)
    same_bits(config, p, "graded")


@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_whole_tiles(layout: str) -> None:
    spec, config = small()
    p = problem((64, 128, 128), layout)
    device = checking()
    verified(spec, config, p, device=device, mode="exact")
    assert not load_conflicts(device)
    same_bits(config, p, "normal")


def test_operands_that_are_not_aligned() -> None:
    spec, config = small()
    p = problem((66, 65, 35), "TN", beta=1.0)
    verified(spec, config, replace(p, lda=p.lda + 2, ldc=p.ldc + 1), mode="exact", offsets=(1, 3, 1))


@pytest.mark.parametrize(("fill", "changes"), [
    ("normal", {"PROMOTE": 32}), ("uniform", {"BK_BYTES": 128, "STAGES": 4}),
    ("graded", {"BK_BYTES": 32, "WM": 16, "BN": 128, "WN": 64}),
], ids=str)  # fmt: skip
def test_other_configurations_follow_the_rule_too(fill: str, changes: dict[str, int]) -> None:
    same_bits(small(**changes)[1], problem((63, 67, 101), "NT"), fill)


@pytest.mark.parametrize("shape", [(1, 1, 1), (64, 1, 32), (1, 65, 33), (65, 64, 0)], ids=str)
def test_small_shapes(shape: tuple[int, int, int]) -> None:
    verified(*small(), problem(shape, alpha=2.0, beta=-1.0), mode="exact")


def test_forbidden_reads() -> None:
    spec, config = small()
    for shape, alpha, beta in (((65, 3, 40), 0.0, 0.0), ((65, 3, 40), 0.0, -1.0), ((5, 66, 0), math.inf, 2.0)):
        p = problem(shape, "TN", alpha=alpha, beta=beta)
        data = operands(p, "integers", seed=2)
        data = replace(data, a=np.full_like(data.a, np.nan), b=np.full_like(data.b, np.nan))
        assert np.array_equal(launched(spec, config, p, data), beta * data.c if beta else np.zeros(p.c_shape))


def test_bias_activation_and_batch() -> None:
    """Each operand is broadcast once: the other has the exponents of its own product."""
    p = Problem(65, 66, 97, alpha=0.2, beta=0.5, bias="column", activation="relu", batch=3)
    for shared in (p, replace(p, stride_a=0), replace(p, stride_b=0)):
        verified(*small(), shared, mode="float", fill="graded")


# --- in steps


def steps_of(device: SimDevice, spec: KernelSpec, config: Config, p: Problem, data: Operands,
             c: int) -> tuple[int, tuple[Step, ...]]:  # fmt: skip
    addresses = Addresses(upload(device, data.a), upload(device, data.b), c)
    workspace = device.allocate(workspace_bytes(spec, config, p, addresses))
    return workspace, bind(device, spec, config, p, addresses, workspace, compiler)


@pytest.mark.parametrize(("fill", "computes"), [("normal", 3), ("wide", 2)])
def test_one_of_two_kernels_computes_and_the_other_touches_nothing(fill: str, computes: int) -> None:
    spec, config = small()
    p = problem((33, 40, 64))
    data = operands(p, fill, 1)
    device = SimDevice()
    c = device.allocate(33 * 40 * 4)
    _, steps = steps_of(device, spec, config, p, data, c)
    assert len(steps) == 4, "clear, split, bf16x6, fp16x3"
    before = device.read(c, 33 * 40 * 4)
    for number, step in enumerate(steps):
        device.write(c, before)
        device.launch(step.loaded, step.launch)
        assert (not np.array_equal(device.read(c, 33 * 40 * 4), before)) == (number == computes)


def test_without_a_product_there_is_one_launch_and_no_workspace() -> None:
    spec, config = small()
    for p in (Problem(5, 6, 0), Problem(5, 6, 40, alpha=0.0)):
        assert workspace_bytes(spec, config, p, Addresses(4, 4, 4)) == 0
        assert len(bind(SimDevice(), spec, config, p, Addresses(4, 4, 4), 0, compiler)) == 1


def test_the_workspace_is_bounded() -> None:
    p = Problem(4096, 4096, 4096)
    spec = rung_named(NAME)
    assert (
        workspace_bytes(spec, spec.config(), p, Addresses(0, 0, 0)) == 2 * 4096 * 4096 * 4 + FLAG_BYTES + 2 * 4096 * 4
    )


def test_it_cannot_be_a_fallback() -> None:
    spec = rung_named(NAME)
    nested = replace(spec, prologue=split_fp16_prologue(spec))
    with pytest.raises(UnsupportedError, match="cannot be a fallback"):
        workspace_bytes(nested, nested.config(), Problem(4, 4, 40), Addresses(0, 0, 0))


# --- as accurate as fma


@pytest.mark.parametrize(("name", "k"), [*product(("normal", "uniform"), (16, 32, 48, 512))])
def test_no_less_accurate_than_fma(name: str, k: int) -> None:
    p = problem((64, 64, k))
    data = operands(p, name, seed=1)
    ours = errors(data, launched(*small(), p, data))
    theirs = errors(data, ordered_fma_reference(p, data.a, data.b, data.c))
    assert all(ours[what] <= 1.05 * theirs[what] for what in ours), (ours, theirs)
    assert fp16x3_accepts(p, data.a, data.b) or k < 64
    if k >= 256:
        assert ours["root mean square"] < 0.5 * theirs["root mean square"]


@pytest.mark.parametrize("name", ["graded", "cancelling", "skewed", "ill-conditioned"])
def test_no_less_accurate_on_data_as_hard_as_they_get(name: str) -> None:
    """By either method: some of these are refused."""
    p = problem((64, 64, 256))
    data = operands(p, name, seed=1)
    ours = errors(data, launched(*small(), p, data))
    theirs = errors(data, ordered_fma_reference(p, data.a, data.b, data.c))
    assert all(ours[what] <= 1.05 * theirs[what] for what in ours), (ours, theirs)


def test_small_numbers_that_pass_the_check_cost_little() -> None:
    """As many as are allowed, and where they hurt most: beside the largest numbers of B, in columns of small ones."""
    random = np.random.default_rng(5)
    k = 512
    a, b = random.uniform(0.5, 1, (64, k)), random.uniform(0.063, 0.07, (k, 64))
    a[:, : k // 32] = random.uniform(0.5, 1, (64, k // 32)) * 2.0 ** -random.uniform(14, 40, (64, k // 32))
    a *= random.choice([-1, 1], a.shape)
    b[: k // 32] = random.uniform(0.9, 1, (k // 32, 64))
    data = Operands(a.astype(np.float32), b.astype(np.float32), np.zeros((64, 64), np.float32))
    p = problem((64, 64, k))
    assert fp16x3_accepts(p, data.a, data.b)
    ours = errors(data, launched(*small(), p, data))
    theirs = errors(data, ordered_fma_reference(p, data.a, data.b, data.c))
    assert all(ours[what] <= 1.05 * theirs[what] for what in ours), (ours, theirs)


# --- the fallback


@pytest.mark.parametrize("layout", LAYOUTS)
def test_wide_data_have_the_bits_of_bf16x6(layout: str) -> None:
    p = problem((50, 60, 70), layout, alpha=0.7, beta=-1.0)
    data = operands(p, "wide", 3)
    assert not fp16x3_accepts(p, data.a, data.b)
    got = launched(*small(), p, data)
    assert np.array_equal(bits(got), bits(launched(*small_rung(OTHER), p, data)))
    assert np.array_equal(bits(got), bits(fp32_tensor_reference(p, data.a, data.b, data.c)))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_infinities_and_nan_are_where_ieee_arithmetic_has_them(value: float) -> None:
    p = problem((20, 24, 40))
    data = operands(p, "normal", 3)
    data.a[3, 39], data.b[7, 5] = value, 0
    data.b[39, 6], data.b[11, 9] = 0, -value
    got = launched(*small(), p, data)
    with np.errstate(all="ignore"):
        fma = ordered_fma_reference(p, data.a, data.b, data.c)
    assert np.array_equal(np.isfinite(got), np.isfinite(fma))
    assert np.array_equal(bits(got)[~np.isfinite(fma)], bits(fma)[~np.isfinite(fma)])


def test_bf16x6_alone_computes_whatever_lies_in_memory() -> None:
    """Without a workspace there is no verdict to read."""
    spec, config = small_rung(OTHER)
    p = problem((8, 8, 40))
    (step,) = bind(SimDevice(), spec, config, p, Addresses(256, 512, 768), 4096, compiler)
    assert step.launch.arguments[-1] == bytes(8)


# --- seen from outside


def test_counters_of_a_kernel_that_would_do_nothing_are_refused() -> None:
    spec = rung_named(NAME)
    for k, refused in ((16, True), (32, False)):
        problem = Problem(64, 64, k)
        compiled = compile_for(spec, spec.config(), problem, "sm_90")
        if refused:
            with pytest.raises(UnsupportedError, match="falls back to fp32_tensor_bf16x6"):
                count_launch(spec, spec.config(), problem, compiled)
        else:
            count_launch(spec, spec.config(), problem, compiled)


def test_a_plan_says_which_method_computed() -> None:
    spec, config = small()
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((20, 64), (64, 24)))
    plan = gemmsmith.plan(a, b, kernel=spec, config=config)
    with pytest.raises(UsageError, match="has not computed anything yet"):
        plan.method()
    exact = a.astype(np.float64) @ b
    assert np.allclose(plan(), exact, rtol=1e-5, atol=1e-5)
    assert plan.method() == "fp16x3"
    assert (plan.launches, plan.workspace_bytes > 0) == (4, True)
    bad = a.copy()
    bad[0, 0] = np.inf
    assert np.isinf(plan(bad)[0]).all()
    assert plan.method() == "bf16x6"
    plan()
    assert plan.method() == "fp16x3"


def test_other_plans_say_what_they_multiply_in() -> None:
    a = np.ones((8, 8), np.float32)
    assert gemmsmith.plan(a, a, kernel="naive").method() == "fp32"
    assert gemmsmith.plan(a, a, kernel="mma_swizzled", dtype="tf32").method() == "tf32"
    spec, config = small_rung(OTHER)
    assert gemmsmith.plan(a, a, kernel=spec, config=config).method() == "bf16x6"
    assert gemmsmith.plan(np.ones((0, 64), "f4"), np.ones((64, 8), "f4"), kernel=NAME).method() == "fp16x3"


# --- more than 2**31 numbers


def last_tile(p: Problem) -> tuple[Array, Array]:
    """The last tile of C as computed from planes of which only some rows exist, and as it should be."""
    spec, config = small()
    row, col = ((extent - 1) // side * side for extent, side in zip(p.c_shape, tile(NAME)[:2], strict=True))
    part = Problem(p.m - row, p.n - col, p.k, alpha=p.alpha, beta=p.beta)
    data = operands(part, "normal", seed=5)
    device = SimDevice()
    a = Large.create(device, (2 * p.m, p.k), p.lda, FP16)  # both planes, one below the other
    b = Large.create(device, (2 * p.k, p.n), p.ldb, FP16)
    c = Large.create(device, p.c_shape, p.ldc, FP32)
    lines: list[Lines] = [split(data.a), split(data.b.T)]
    for number, (x, y) in enumerate(((lines[0].high, lines[1].high), (lines[0].low, lines[1].low))):
        write(a, number * p.m + row, 0, x)
        write(b, number * p.k, col, y.T)
    write(c, row, col, data.c)
    workspace = device.allocate(FLAG_BYTES + 4 * (p.m + p.n))
    device.write(workspace, np.zeros(16, np.uint8))
    for at, each in ((row, lines[0]), (p.m + col, lines[1])):
        device.write(workspace + FLAG_BYTES + 4 * at, np.array(each.exponents, np.int32).view(np.uint8))
    geometry = spec.geometry(p, config)
    arguments = spec.signature.pack(p, a.address, b.address, c.address, workspace=workspace)
    loaded = device.load(compiler(spec, config, p, device.arch))
    device.launch(loaded, Launch(geometry, arguments), blocks=[geometry.blocks - 1])
    return bits(c.read(row, col, part.c_shape)), bits(by_fp16_parts(part, data.a, data.b, data.c))


def write(matrix: Large, row: int, col: int, values: Array) -> None:
    """Row by row: planes of one column have gaps."""
    for index, line in enumerate(values):
        matrix.write(row + index, col, line[None])


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_do_not_overflow(kind: str) -> None:
    p = problem_for(NAME, kind)
    lda, ldb = (-(-ld // 8) * 8 for ld in (p.lda, p.ldb))
    got, expected = last_tile(replace(p, lda=lda, ldb=ldb))
    assert np.array_equal(got, expected)


# --- mistakes

CU, SPLIT = "24_fp32_tensor_fp16x3.cu", "split_fp16.cuh"
MUTANTS = [
    (CU, "mma(small[i], a[i][d][1]", "mma(small[i], a[i][d][0]"),
    (CU, "planes + p * bytes", "planes"),
    (CU, "B + ldb * (TRANS_B ? N : K)", "B + ldb * (TRANS_B ? N - 1 : K)"),
    (CU, "min(col + j * 8", "min(col + j * 4"),
    (CU, "__fadd_rn(large[i][j], small[i][j])", "large[i][j]"),
    (CU, "acc[i][B_FRAGMENTS * 8 - 4 + s] = done[i][s];", "acc[i][B_FRAGMENTS * 8 - 4 + s] = done[i][0];"),
    (SPLIT, "(strideA == 0 ? 1ll : batch) * M", "(strideA == 0 ? 1ll : batch) * N"),
]  # fmt: skip


def mutated(folder: Path, file: str, right: str, wrong: str) -> KernelSpec:
    spec = copy_kernel(small()[0], folder)
    path = find_file(folder, file)
    text = path.read_text(encoding="utf-8")
    assert text.count(right) == 1
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    return spec


@pytest.mark.parametrize(("file", "right", "wrong"), MUTANTS, ids=[f"{r[:24]}-{w[:24]}" for _, r, w in MUTANTS])
def test_a_mistake_is_found(tmp_path: Path, file: str, right: str, wrong: str) -> None:
    """Columns of many sizes, rows of one."""
    p = problem((50, 63, 40), "NT")
    data = operands(p, "normal", 3)
    for operand in (data.a, data.b):
        operand[np.abs(operand) < 0.01] = 1
    np.multiply(data.b, 2.0 ** np.linspace(-119, 120, 63, dtype=np.float32)[:, None], out=data.b)
    assert fp16x3_accepts(p, data.a, data.b)
    expected = bits(fp16x3_reference(p, data.a, data.b, data.c))
    config = small(WM=16)[1]  # compiled twice as fast
    broken = mutated(tmp_path, file, right, wrong)
    assert not np.array_equal(bits(launched(broken, config, p, data)), expected)


# --- configurations


@pytest.mark.parametrize(("changes", "reason"), [
    ({"WM": 64, "WN": 128}, r"WM·WN/32 = 64·128/32 = 256 accumulators per lane"),
    ({"WM": 64, "WN": 64, "PROMOTE": 32}, r"\(64/16\+2\)·8·\(32/16\) = 96 registers of split operands"),
    ({"PROMOTE": 32, "BK_BYTES": 32}, "a k-tile of BK_BYTES=32 is 16 deep, less than PROMOTE=32"),
    ({"BM": 256, "BN": 256, "WM": 64}, None),
    ({"BM": 256, "BN": 256, "WM": 64, "STAGES": 4}, r"STAGES·2·\(BM\+BN\)·BK_BYTES = 4·2·\(256\+256\)·64 = 262,144 B"),
    ({"BN": 256, "WM": 16, "WN": 32}, "2048 threads"),
])  # fmt: skip
def test_illegal_configurations_show_the_arithmetic(changes: dict[str, int], reason: str | None) -> None:
    if reason is None:
        assert rung_named(NAME).config(changes)
        return
    with pytest.raises(ConfigError, match=reason):
        rung_named(NAME).config(changes)


@pytest.mark.parametrize(("arch", "layout"), [("sm_80", "NT"), ("sm_90", "NN")])
def test_no_spills_by_default(arch: str, layout: str) -> None:
    spec = rung_named(NAME)
    request = render_kernel(spec, spec.config(), dtype=FP32, trans_a=layout[0] == "T", trans_b=layout[1] == "T",
                            arch=arch)  # fmt: skip
    resources = compile_request(request, find_toolchain()).resources
    assert not resources.spills
    assert resources.stack == 0
    assert spec.geometry(Problem(1, 1, 1), spec.config()).smem <= 99 * 1024
