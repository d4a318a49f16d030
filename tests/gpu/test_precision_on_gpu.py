"""precision= on a GPU: errors beside cuBLAS, the same bits every time, plans and graphs. ``pytest -m gpu tests/gpu``.

``benchmarks/check_precision.py`` does the same for ten thousand products.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from torch_graphs import capture

import gemmsmith
from gemmsmith.choose.choice import choose
from gemmsmith.choose.precision import FP32_FLOOR, FP32_MARGIN, PRECISIONS, promises
from gemmsmith.errors import UnsupportedError
from gemmsmith.fills import fill_named, operands
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32, TF32, Problem
from gemmsmith.run.baselines.torch_views import fp32_arithmetic
from gemmsmith.run.cuda import cuda_device, gpu_available
from gemmsmith.verify.oracles.accuracy_study import DISTRIBUTIONS
from gemmsmith.verify.oracles.bounds import accuracy, gate
from gemmsmith.verify.oracles.fma import ordered_fma_reference

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]

UNIT = 2.0**-24
CASES = 40  # of each distribution
LARGEST = 1500
MOST_FOR_QR = 300  # operands of 'ill-conditioned' are made on the host, from orthogonal factors


@pytest.fixture(name="torch")
def _torch() -> Any:
    return pytest.importorskip("torch")


def problems(distribution: str) -> list[Problem]:
    """Extents uniform in their logarithms; all four layouts."""
    rng = np.random.default_rng(DISTRIBUTIONS.index(distribution))
    most = MOST_FOR_QR if distribution == "ill-conditioned" else LARGEST
    found = []
    for number in range(CASES):
        m, n, k = (int(np.exp2(rng.uniform(0, math.log2(most + 1)))) for _ in range(3))
        found.append(Problem(m, n, k, trans_a=bool(number & 1), trans_b=bool(number & 2)))
    return found


def tensors(torch: Any, problem: Problem, fill: str, seed: int = 0) -> tuple[Any, Any]:
    """op(A) as M×K and op(B) as K×N, stored as the problem says."""
    data = operands(problem, fill, seed)
    a, b = torch.from_numpy(data.a).cuda(), torch.from_numpy(data.b).cuda()
    return (a.T if problem.trans_a else a), (b.T if problem.trans_b else b)


def largest(torch: Any, a: Any, b: Any, got: Any) -> float:
    """The largest component of |Ĉ−C|/(|A||B|), in units of 2**−24; infinite where the result is not finite."""
    left, right = a.double(), b.double()
    exact, magnitude = left @ right, left.abs() @ right.abs()
    error = (got.double() - exact).abs() / (UNIT * magnitude)
    nothing = magnitude == 0
    error.masked_fill_(nothing & (got == 0), 0.0)
    error.masked_fill_((nothing & (got != 0)) | ~torch.isfinite(got), math.inf)
    return float(error.max())


def cublas(torch: Any, a: Any, b: Any) -> Any:
    with fp32_arithmetic(torch, tf32=False):
        return a @ b


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_fp32_is_within_its_margin_of_cublas(torch: Any, distribution: str) -> None:
    beyond = []
    for seed, problem in enumerate(problems(distribution)):
        a, b = tensors(torch, problem, distribution, seed)
        theirs = largest(torch, a, b, cublas(torch, a, b))
        ours = largest(torch, a, b, gemmsmith.matmul(a, b))
        floor = FP32_FLOOR * gate(problem.k, fill_named(distribution).errors_grow)
        if not ours <= FP32_MARGIN * max(theirs, floor):
            beyond.append((problem, seed, ours, theirs))
    assert beyond == []


@pytest.mark.parametrize("precision", ["ieee", "fp32-fast", "tf32"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_others_are_within_their_bounds(torch: Any, precision: str, distribution: str) -> None:
    kind = "tf32" if precision == "tf32" else "fp32"
    beyond = []
    for seed, problem in enumerate(problems(distribution)[: CASES // 2]):
        a, b = tensors(torch, problem, distribution, seed)
        allowed = accuracy(kind, problem.k, fill_named(distribution).errors_grow)
        ours = largest(torch, a, b, gemmsmith.matmul(a, b, precision=precision)) * UNIT / allowed.unit
        if not ours <= allowed.gate:
            beyond.append((problem, seed, ours, allowed.gate))
    assert beyond == []


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_kernel_keeps_the_promise(precision: str) -> None:
    device = cuda_device()
    dtype = TF32 if precision == "tf32" else FP32
    for size in (1, 64, 1024, 8192):
        found = choose(Problem(size, size, size, dtype), device.name, sms=device.sms, arch=device.arch,
                       precision=precision)  # fmt: skip
        assert precision in promises(found.spec, dtype)


def test_ieee_is_an_fma_loop_bit_for_bit_where_k_is_not_divided(torch: Any) -> None:
    """By default simt_best goes through all of K; what is chosen for a small product may divide it."""
    problem = Problem(65, 130, 70)
    for fill in ("normal", "specials", "subnormal"):
        data = operands(problem, fill, 1)
        a, b = torch.from_numpy(data.a).cuda(), torch.from_numpy(data.b).cuda()
        got = gemmsmith.gemm(a, b, kernel="simt_best", precision="ieee").cpu().numpy()
        assert np.array_equal(got, ordered_fma_reference(problem, data.a, data.b, data.c), equal_nan=True), fill


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (509, 511, 513), (1024, 768, 1280), (64, 64, 8192), (4096, 16, 300)])
def test_the_same_bits_every_time_with_another_stream_busy(
    torch: Any, precision: str, shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
    first = gemmsmith.matmul(a, b, precision=precision)
    other, noise = torch.cuda.Stream(), torch.randn(2048, 2048, device="cuda")
    torch.cuda.synchronize()
    for _ in range(20):
        with torch.cuda.stream(other):
            noise @ noise
        assert torch.equal(gemmsmith.matmul(a, b, precision=precision), first)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("size", [512, 509])
def test_plans_and_graphs(torch: Any, precision: str, size: int) -> None:
    a, b = torch.randn(size, size, device="cuda"), torch.randn(size, size, device="cuda")
    out = torch.full((size, size), math.nan, device="cuda")
    plan = gemmsmith.plan(a, b, out=out, precision=precision)
    assert precision in promises(rung_named(plan.kernel), plan.problem.dtype)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with capture(graph):
        plan()
    for _ in range(3):
        # Ordinary data, then data over 64 binades, which fp16 parts cannot hold: the same graph serves both.
        for wide in (False, True):
            a.normal_()
            if wide:
                torch.exp2(a * 8, out=a)
            out.fill_(math.nan)
            graph.replay()
            assert torch.equal(out, gemmsmith.matmul(a, b, precision=precision))
            if precision != "tf32":
                assert largest(torch, a, b, out) <= gate(size, errors_grow=wide)


@pytest.mark.parametrize("precision", ["ieee", "fp32", "fp32-fast"])
def test_infinities_and_nan_are_where_ieee_puts_them(torch: Any, precision: str) -> None:
    a, b = torch.randn(130, 70, device="cuda"), torch.randn(70, 140, device="cuda")
    a[3, 5], a[60, 7], b[9, 100] = math.inf, math.nan, -math.inf
    got, expected = gemmsmith.matmul(a, b, precision=precision), a.double() @ b.double()
    assert torch.equal(torch.isnan(got), torch.isnan(expected))
    assert torch.equal(torch.isinf(got), torch.isinf(expected))
    assert torch.equal(got[torch.isinf(got)].double(), expected[torch.isinf(expected)])


def test_subnormal_operands_count(torch: Any) -> None:
    a = torch.full((64, 32), 2.0**-140, device="cuda")
    b = torch.full((32, 48), 2.0**30, device="cuda")
    for precision in ("ieee", "fp32", "fp32-fast"):
        assert torch.equal(gemmsmith.matmul(a, b, precision=precision), torch.full((64, 48), 2.0**-105, device="cuda"))


def test_a_kernel_that_does_not_keep_it_is_refused(torch: Any) -> None:
    a = torch.ones(64, 64, device="cuda")
    with pytest.raises(UnsupportedError, match="fp32_tensor_bf16x6 does not keep precision='ieee'"):
        gemmsmith.gemm(a, a, kernel="fp32_tensor_bf16x6", precision="ieee")
