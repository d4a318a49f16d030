"""fp32 on tensor cores: the bits of its rule in every layout, IEEE's infinities and NaN, errors below those of fma."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from fp32_tensor_rule import fp32_tensor_reference, three_parts
from ptx_only import copy_kernel, find_file
from rung_launch import bits, compiler, launched, verified
from rung_launch import small as small_rung

from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import render_kernel
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.errors import ConfigError, SimulationError
from gemmsmith.fills import Array, Operands, operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32, Problem
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named
from gemmsmith.verify.oracles.fma import ordered_fma_reference

NAME = "fp32_tensor_bf16x6"
LAYOUTS = ("NN", "NT", "TN", "TT")
# Four warps, two fragments of A and two groups of B each; k-tiles of one step, and the fewest stages.
UNIT = 2.0**-24


def small(**changes: int) -> tuple[KernelSpec, Config]:
    spec = rung_named(NAME)
    return spec, spec.config(dict(spec.small) | changes)


def problem(shape: tuple[int, int, int], layout: str = "NN", **more: float) -> Problem:
    return Problem(*shape, trans_a=layout[0] == "T", trans_b=layout[1] == "T", **more)  # type: ignore[arg-type]


def aligned(p: Problem) -> Problem:
    """Leading dimensions of A and B on 16 bytes, and larger than a row."""
    return replace(p, lda=(p.lda // 4 + 1) * 4, ldb=(p.ldb // 4 + 1) * 4)


def checking(order: str = "lockstep", seed: int = 0) -> SimDevice:
    return SimDevice(schedule=schedule_named(order, seed, late_copies=True), hazards=True, count=True)


def load_conflicts(device: SimDevice) -> int:
    """Wavefronts of shared-memory reads that are bank conflicts."""
    counters = device.counters
    assert counters is not None
    return sum(c.conflicts for operation, c in counters.items() if operation.profiled.sass in ("LDS", "LDSM"))


# --- right, in every layout


@pytest.mark.parametrize("layout", LAYOUTS)
def test_aligned_operands_with_ragged_edges(layout: str) -> None:
    """More than one tile in M and N, and more k-tiles than stages in K."""
    spec, config = small()
    p = aligned(problem((67, 70, 53), layout, alpha=-1.0, beta=2.0))
    device = checking()
    verified(spec, config, p, device=device, mode="exact")
    assert not load_conflicts(device)
    same_bits(config, p, "normal")


@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_whole_tiles(layout: str) -> None:
    spec, config = small()
    p = problem((64, 128, 64), layout)
    device = checking()
    verified(spec, config, p, device=device, mode="exact")
    assert not load_conflicts(device)
    same_bits(config, p, "normal")


@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_operands_that_are_not_aligned(layout: str) -> None:
    spec, config = small()
    p = problem((66, 65, 33), layout, beta=1.0)
    verified(spec, config, replace(p, lda=p.lda + 2, ldc=p.ldc + 1), mode="exact", offsets=(1, 3, 1))
    same_bits(config, p.with_(alpha=0.7, beta=-1.5), "normal")


def same_bits(config: Config, p: Problem, fill: str, seed: int = 5) -> None:
    data = operands(p, fill, seed)
    expected = fp32_tensor_reference(p, data.a, data.b, data.c, config["PROMOTE"])
    assert np.array_equal(bits(launched(rung_named(NAME), config, p, data)), bits(expected))


@pytest.mark.parametrize(("fill", "changes"), [
    ("wide", {"PROMOTE": 32, "BK_BYTES": 128}), ("uniform", {"BK_BYTES": 128, "STAGES": 4}), ("wide", {"WM": 16}),
    ("normal", {"WM": 64, "WN": 64, "BN": 128}),
], ids=str)  # fmt: skip
def test_other_configurations_follow_the_rule_too(fill: str, changes: dict[str, int]) -> None:
    same_bits(small(**changes)[1], aligned(problem((63, 67, 37), "TN" if fill == "wide" else "NT")), fill)


def test_the_default_configuration() -> None:
    same_bits(rung_named(NAME).config(), problem((128, 128, 48)), "wide")


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 7), (64, 1, 16), (1, 65, 17), (65, 64, 0)], ids=str)
def test_small_shapes(shape: tuple[int, int, int]) -> None:
    spec, config = small()
    verified(spec, config, problem(shape, alpha=2.0, beta=-1.0), mode="exact")


def test_forbidden_reads() -> None:
    spec, config = small()
    for shape, alpha, beta in (((65, 3, 7), 0.0, 0.0), ((65, 3, 7), 0.0, -1.0), ((5, 66, 0), math.inf, 2.0)):
        p = problem(shape, "TN", alpha=alpha, beta=beta)
        data = operands(p, "integers", seed=2)
        data = replace(data, a=np.full_like(data.a, np.nan), b=np.full_like(data.b, np.nan))
        assert np.array_equal(launched(spec, config, p, data), beta * data.c if beta else np.zeros(p.c_shape))


@pytest.mark.parametrize(("bias", "activation"), [("row", "gelu"), ("column", "relu")])
def test_bias_activation_and_batch_in_one_launch(bias: str, activation: str) -> None:
    spec, config = small()
    p = Problem(65, 66, 33, alpha=0.2, beta=0.5, bias=bias, activation=activation, batch=3)
    verified(spec, config, replace(p, stride_b=0), mode="float")


def test_specials_in_the_last_product_of_a_batch() -> None:
    """Recomputed accumulators are read from their own matrix of the batch."""
    spec, config = small()
    p = Problem(8, 12, 16, batch=2)
    data = operands(p, "integers", seed=1)
    data.a[8 + 3, 5] = math.inf
    device = SimDevice()
    addresses = [device.allocate(array.nbytes) for array in (data.a, data.b, data.c)]
    for address, array in zip(addresses, (data.a, data.b, data.c), strict=True):
        device.write(address, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    fitted = spec.specialize(config, p, (addresses[0], addresses[1], addresses[2]))
    launch = Launch(spec.geometry(p, fitted), spec.signature.pack(p, *addresses))
    device.launch(device.load(compiler(spec, fitted, p, device.arch)), launch)
    got = device.read(addresses[2], data.c.nbytes).view(np.float32).reshape(2, 8, 12)
    with np.errstate(invalid="ignore"):  # some of NumPy's products set the flag although no result is NaN
        exact = data.a.reshape(2, 8, 16) @ data.b.reshape(2, 16, 12)
    assert np.isinf(exact[1, 3]).all()
    assert np.array_equal(got, exact)


# --- as accurate as fma

DISTRIBUTIONS = ("normal", "uniform", "wide", "cancelling")


def drawn(name: str, p: Problem, seed: int) -> Operands:
    """``cancelling``: the second half of each sum takes back the first but for 1e-4 of it."""
    if name != "cancelling":
        return operands(p, name, seed)
    data, half = operands(p, "normal", seed), p.k // 2
    noise = np.random.default_rng(seed).standard_normal((half, p.n))
    data.a[:, half:] = data.a[:, :half]
    data.b[half:] = -data.b[:half] * (1 + 1e-4 * noise)
    return data


def errors(data: Operands, got: Array) -> dict[str, float]:
    """Against float64: relative in the Frobenius norm; component-wise, in units of 2**−24 of |A||B|, both ways."""
    a, b = data.a.astype(np.float64), data.b.astype(np.float64)
    exact, error = a @ b, np.abs(got - a @ b)
    ratios = error / (np.abs(a) @ np.abs(b)) / UNIT
    return {"norm": float(np.linalg.norm(error) / np.linalg.norm(exact)),
            "largest": float(ratios.max()), "root mean square": float(np.sqrt((ratios**2).mean()))}  # fmt: skip


@pytest.mark.parametrize(("name", "k"), [*product(DISTRIBUTIONS, (16, 256, 1024)), ("uniform", 4096)])
def test_no_less_accurate_than_fma(name: str, k: int) -> None:
    """warp_tile is the loop of fma that cuBLAS's fp32 kernels are as well.

    The norm of ``wide`` is that of its largest output or two, and so compares two roundings and not two methods.
    """
    p = problem((64, 64, k))
    data = drawn(name, p, seed=1)
    ours = errors(data, launched(*small(), p, data))
    theirs = errors(data, ordered_fma_reference(p, data.a, data.b, data.c))
    compared = [what for what in ours if (name, what) != ("wide", "norm")]
    assert all(ours[what] <= 1.05 * theirs[what] for what in compared), (ours, theirs)
    if k >= 256 and name != "wide":  # K / 16 roundings instead of K: a quarter of the error
        assert ours["root mean square"] < 0.36 * theirs["root mean square"]


def test_what_it_is_compared_with_is_warp_tile() -> None:
    p = problem((32, 32, 64))
    data = operands(p, "wide", seed=1)
    expected = ordered_fma_reference(p, data.a, data.b, data.c)
    assert np.array_equal(bits(launched(*small_rung("warp_tile"), p, data)), bits(expected))


def test_three_parts_are_all_of_a_number() -> None:
    patterns = np.random.default_rng(1).integers(0, 2**32, 200_000, dtype=np.uint32)
    patterns[:4] = (1, 0x007FFFFF, 0x80000001, 0x77FFFFFF & 0xFFFF7FFF)
    values = patterns.view(np.float32)
    values = values[np.abs(values) < 2.0**111]
    assert len(values) > 100_000
    assert np.array_equal(sum(three_parts(values)), values.astype(np.float64) * 2**16)


# --- infinities, NaN and the ends of the range

SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -3.0)
EXTREME = (3.4028235e38, -3.4028235e38, 2.0**112, 2.0**90, 2.0**-149, -(2.0**-140), 2.0**-126, 1 + 2.0**-23)


@cache
def every_pair(values: tuple[float, ...]) -> tuple[Array, Array]:
    """All sums x1·y1 + x2·y2 of numbers among ``values``: A with each pair as a row, B with each as a column."""
    pairs = np.array(list(product(values, values)), np.float32)
    return pairs, np.ascontiguousarray(pairs.T)


@pytest.mark.parametrize("values", [SPECIAL, (*SPECIAL[:3], 0.0, *EXTREME)], ids=["special", "extreme"])
def test_every_sum_of_two_products_is_what_ieee_arithmetic_has(values: tuple[float, ...]) -> None:
    """Infinities, NaN and overflow to the bit; finite sums to two units of fp32's last place, or half its least one."""
    a, b = every_pair(values)
    p = problem((len(a), len(a), 2))
    data = Operands(a, b, np.zeros(p.c_shape, np.float32))
    got = launched(*small(), p, data)
    with np.errstate(all="ignore"):
        fma = ordered_fma_reference(p, a, b, data.c)
        exact, size = (x.astype(np.float64) @ y.astype(np.float64) for x, y in ((a, b), (np.abs(a), np.abs(b))))
        special = ~np.isfinite(fma)
        close = np.abs(got - exact) <= 2.5 * UNIT * size + 2.0**-149
    assert 0 < special.sum() < special.size
    assert np.array_equal(bits(got)[special], bits(fma)[special])
    assert close[~special].all()


def test_specials_far_apart_in_k_and_in_every_place_of_a_tile() -> None:
    """One NaN, infinity or number near the end of the range in each row, in different k-tiles; zeros beside them."""
    spec, config = small()
    p = problem((67, 66, 70), "NT")
    rng = np.random.default_rng(4)
    data = operands(p, "normal", 4)
    data.a[np.arange(67), rng.integers(0, 70, 67)] = rng.choice([math.inf, -math.inf, math.nan, 3.4e38, 1.0], 67)
    data.b[np.arange(66), rng.integers(0, 70, 66)] = rng.choice([0.0, math.inf, -3.4e38, 1.0], 66)
    got = launched(spec, config, p, data)
    with np.errstate(all="ignore"):
        fma = ordered_fma_reference(p, data.a, data.b, data.c)
    assert all(some(fma).any() for some in (np.isnan, np.isinf, np.isfinite))
    assert np.array_equal(np.isfinite(got), np.isfinite(fma))
    assert np.array_equal(bits(got)[~np.isfinite(fma)], bits(fma)[~np.isfinite(fma)])
    assert np.array_equal(bits(got), bits(fp32_tensor_reference(p, data.a, data.b, data.c)))


def test_an_infinity_in_a_column_does_not_reach_rows_outside() -> None:
    """Rows beyond the matrix are zeros: times an infinity they are NaN, which must not trigger a recomputation."""
    p = problem((3, 5, 20), "NN")
    data = operands(p, "integers", 3)
    data.b[7, 2] = math.inf
    got = launched(*small(), p, data)
    assert np.array_equal(got, (data.a.astype(np.float64) @ data.b).astype(np.float32))


def test_numbers_at_both_ends_of_the_range_keep_all_their_bits() -> None:
    """Tiny times huge: each operand needs its 24 bits, subnormal ones all they have."""
    p = problem((64, 64, 32))
    rng = np.random.default_rng(2)
    tiny = (rng.integers(1, 2**24, p.a_shape) * rng.choice([-1.0, 1.0], p.a_shape) * 2.0**-149).astype(np.float32)
    huge = (rng.standard_normal(p.b_shape) * 2.0**105).astype(np.float32)
    data = Operands(tiny, huge, np.zeros(p.c_shape, np.float32))
    ours, theirs = errors(data, launched(*small(), p, data)), errors(data, ordered_fma_reference(p, tiny, huge, data.c))
    assert ours["norm"] <= 1.05 * theirs["norm"]
    assert ours["root mean square"] <= 1.05 * theirs["root mean square"]


def test_products_that_underflow_are_kept_as_fp32_keeps_them() -> None:
    spec, config = small()
    verified(spec, config, problem((64, 64, 48)), mode="float", fill="subnormal")
    verified(spec, config, problem((33, 34, 48)), mode="float", fill="specials")


# --- the ring, in every order

ORDERS = (("in_order", 0), ("reversed", 0), ("random", 1), ("starved", 1))


@pytest.mark.parametrize(("order", "seed", "aligned_rows"), [*((*order, 1) for order in ORDERS), ("reversed", 0, 0)])
def test_every_order_of_warps_gives_the_same_bits(order: str, seed: int, aligned_rows: int) -> None:
    spec, config = small(ALIGNED=aligned_rows)
    for k in (16, 80):  # fewer k-tiles than stages, and more
        verified(spec, config, problem((64, 65, k), "NT", alpha=2.0), device=checking(order, seed), mode="exact")


CU, SPLIT, RECOMPUTE = "22_fp32_tensor_bf16x6.cu", "split_bf16.cuh", "ieee_recompute.cuh"
RACES = [
    (CU, "cp_async_wait<STAGES - 2>();", ""),
    (CU, "            __syncthreads();\n", ""),
    (CU, "cp_async_commit();", "if (left > 0) cp_async_commit();"),
]
MUTANTS = [
    (CU, "j + 1, step)", "j, step)"),
    (CU, "if (!c.inside(row, col)) return 0.0f;", ""),
    (CU, "        return fma_dot(a, b, K);", "        return fma_dot(a, b, K - 1);"),
    (CU, "index / 2 % 2", "index % 2"),
    # Accumulators never leave the tensor core.
    (CU, "float large[MT][4] = {}, small[MT][4] = {};",
     "float large[MT][4] = {}, small[MT][4] = {}; for (int i = 0; i < MT; ++i) for (int j = 0; j < 4; ++j) "
     "{ large[i][j] = acc[i][column + j]; acc[i][column + j] = 0.0f; }"),
    (SPLIT, "SMALL_PRODUCTS = 5;", "SMALL_PRODUCTS = 4;"),  # without x1 y2
    (SPLIT, "SMALL_A[] = {2,", "SMALL_A[] = {0,"),  # x1 y1 in place of x3 y1
    (SPLIT, "SMALL_B[] = {0, 2,", "SMALL_B[] = {0, 1,"),  # x1 y2 in place of x1 y3
    (SPLIT, "terms[p] & 0xFFFF0000", "terms[p]"),
    (SPLIT, "upper * UPPER + k_half * K_HALF", "upper * K_HALF + k_half * UPPER"),
    (SPLIT, "SPLIT_SCALE = 65536.0f;", "SPLIT_SCALE = 1.0f;"),
    (RECOMPUTE, "if (finite == 0.0f) return;", "return;"),
    (RECOMPUTE, "acc[Count - 1] = value;", "acc[Count - 1] = acc[0];"),
]  # fmt: skip


def mutated(folder: Path, file: str, right: str, wrong: str) -> KernelSpec:
    spec = copy_kernel(rung_named(NAME), folder)
    path = find_file(folder, file)
    text = path.read_text(encoding="utf-8")
    assert text.count(right) == 1
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    return spec


@pytest.mark.parametrize(("file", "right", "wrong"), RACES, ids=[right.strip() for _, right, _ in RACES])
def test_a_race_is_found(tmp_path: Path, file: str, right: str, wrong: str) -> None:
    broken = mutated(tmp_path, file, right, wrong)
    with pytest.raises((AssertionError, SimulationError), match=r"race|uninitialised"):
        verified(broken, small(WM=16)[1], problem((64, 65, 80), "NT"), device=checking("reversed"), mode="exact")


@pytest.mark.parametrize(("file", "right", "wrong"), MUTANTS, ids=[right.strip()[:32] for _, right, _ in MUTANTS])
def test_a_mistake_is_found(tmp_path: Path, file: str, right: str, wrong: str) -> None:
    p = problem((50, 63, 40), "NT")
    data = operands(p, "normal", 3)
    data.a[3, 39] = data.b[7, 5] = math.inf
    data.a[9] = 2.0**-140
    expected = bits(fp32_tensor_reference(p, data.a, data.b, data.c))
    broken = mutated(tmp_path, file, right, wrong)
    config = small(WM=16)[1]  # compiled twice as fast
    if "inside" in right:
        with pytest.raises(SimulationError, match="out-of-bounds"):
            launched(broken, config, p, data)
    else:
        assert not np.array_equal(bits(launched(broken, config, p, data)), expected)


# --- configurations


def test_the_fast_path_is_chosen_by_alignment() -> None:
    spec = rung_named(NAME)
    p = problem((64, 64, 64), batch=2)
    assert spec.specialize(spec.config(), p, (256, 512, 3)) == spec.config()
    for changed, addresses in ((p, (4, 512, 0)), (p.with_(ldb=66), (0, 0, 0)), (p.with_(stride_a=4097), (0, 0, 0))):
        assert spec.specialize(spec.config(), changed, addresses)["ALIGNED"] == 0


@pytest.mark.parametrize(("changes", "reason"), [
    ({"WM": 64, "WN": 128}, r"WM·WN/32 = 64·128/32 = 256 accumulators per lane"),
    ({"WM": 64, "WN": 64, "BK_BYTES": 128, "PROMOTE": 32}, r"64/16·12·\(32/16\) = 96 registers of split operands"),
    ({"PROMOTE": 32}, "a k-tile of BK_BYTES=64 is 16 deep, less than PROMOTE=32"),
    ({"BM": 256, "BN": 256, "BK_BYTES": 128}, r"STAGES·\(BM\+BN\)·BK_BYTES = 4·\(256\+256\)·128 = 262,144 B"),
    ({"BN": 256, "WM": 16, "WN": 32}, "2048 threads"),
    ({"BM": 64, "BN": 256, "WM": 64, "WN": 32, "MIN_BLOCKS": 3}, None),
])  # fmt: skip
def test_illegal_configurations_show_the_arithmetic(changes: dict[str, int], reason: str | None) -> None:
    if reason is None:
        assert rung_named(NAME).config(changes)
        return
    with pytest.raises(ConfigError, match=reason):
        rung_named(NAME).config(changes)


@pytest.mark.parametrize(("arch", "layout"), [("sm_80", "NT"), ("sm_86", "NN"), ("sm_89", "TT"), ("sm_90", "NT"),
                                              ("sm_100", "NN"), ("sm_120", "TN")])  # fmt: skip
def test_no_spills_by_default(arch: str, layout: str) -> None:
    spec = rung_named(NAME)
    request = render_kernel(spec, spec.config(), dtype=FP32, trans_a=layout[0] == "T", trans_b=layout[1] == "T",
                            arch=arch)  # fmt: skip
    resources = compile_request(request, find_toolchain()).resources
    assert not resources.spills
    assert resources.stack == 0
    assert spec.geometry(Problem(1, 1, 1), spec.config()).smem <= 99 * 1024
