"""The Hopper rungs on a GPU: a thousand random products against float64, order, graphs, streams, early release.

    pytest -m gpu tests/gpu/test_hopper.py

Operands lie in buffers of NaN, at odd places with odd gaps; outputs between canaries. All code is compiled first, in
as many processes as there are cores.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hopper_cases import (
    HOPPER,
    PLAIN,
    Case,
    Kind,
    chosen_cases,
    divided_k_cases,
    has_two_widths,
    rung_cases,
    tail_cases,
    unaligned_cases,
)
from torch_graphs import capture

import gemmsmith
from gemmsmith.choose.candidates import Candidate
from gemmsmith.errors import ConfigError, GemmsmithError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP16, FP32, DType, Problem
from gemmsmith.run.cuda import cuda_device, gpu_available
from gemmsmith.tune.compile_ahead import CompilePool
from gemmsmith.verify.oracles.bounds import absolute_floor, accuracy
from gemmsmith.verify.oracles.epilogue import SLOPES, output_rounding

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_available() or cuda_device().arch != "sm_90", reason="needs a Hopper GPU"),
]

CASES_A_RUNG = 180
UNALIGNED_CASES = 800
DIVIDED_K_CASES = 280
TAIL_CASES = 150
CHOSEN_CODES = 24
GUARD = 2048  # elements before and after a matrix
CANARY = {2: -0x36, 4: -0x3F3502}  # 0xffca and 0xffc0cafe: NaN in fp16, bf16 and fp32 that no arithmetic produces
NAMES = [spec.name for spec in HOPPER]
CLUSTER, SPLIT_K = rung_named("wgmma_cluster"), rung_named("wgmma_split_k")
torch: Any = None


@cache
def own_choices() -> list[tuple[Case, KernelSpec]]:
    device = cuda_device()
    return chosen_cases(device.name, device.sms, device.arch, CHOSEN_CODES)


@pytest.fixture(scope="module", autouse=True)
def compiled(compile_cache: Path) -> Iterator[None]:
    """Everything that the tests below launch, in the compile cache."""
    global torch
    torch = pytest.importorskip("torch")
    wanted: dict[tuple[Kind, str, str, bool], tuple[Problem, Candidate]] = {}
    pairs = [(case, spec) for spec in HOPPER for case in rung_cases(spec, CASES_A_RUNG)] + own_choices()
    pairs += [(case, SPLIT_K) for case in unaligned_cases(UNALIGNED_CASES)]
    pairs += [(case, CLUSTER) for case in tail_cases(TAIL_CASES)]
    pairs += [(case, CLUSTER) for case in divided_k_cases(DIVIDED_K_CASES)]
    for case, spec in pairs:
        assert case.config is not None
        key = case.kind, spec.name, str(case.config), case.stored_through_tma and spec.persistent
        wanted[key] = case.compiled_as, Candidate(spec, case.config, 0.0)
    for spec in HOPPER:  # of the tests that choose nothing
        for n in (1024, 1023):
            wanted[PLAIN, spec.name, "", n == 1024] = PLAIN.problem(1024, n, 1024), Candidate(spec, spec.config(), 0.0)
    with CompilePool(cuda_device().arch, compile_cache) as pool:
        for problem, candidate in wanted.values():
            pool.begin(problem, [candidate])
        failures = [why for problem, candidate in wanted.values() for why in pool(problem, [candidate]).values()]
    assert failures == []
    yield
    torch.cuda.synchronize()


def kind_of(dtype: DType) -> Any:
    return {FP16: torch.float16, BF16: torch.bfloat16, FP32: torch.float32}[dtype]


@dataclass
class Placed:
    """A matrix, or a batch of them, in a buffer that is NaN all around it."""

    flat: Any
    view: Any

    def damage(self) -> int:
        """How many elements outside of the matrix have changed; spoils the matrix."""
        size = self.flat.element_size()
        self.view.view(torch.int16 if size == 2 else torch.int32).fill_(CANARY[size])
        words = self.flat.view(torch.int16 if size == 2 else torch.int32)
        return int((words != CANARY[size]).sum())


def placed(shape: tuple[int, int], ld: int, batch: int, stride: int, offset: int, dtype: DType) -> Placed:
    rows, cols = shape
    span = (batch - 1) * stride + (rows - 1) * ld + cols if rows and cols else 0
    start = GUARD + offset
    size = dtype.itemsize
    flat = torch.full((start + span + GUARD,), CANARY[size], dtype=torch.int16 if size == 2 else torch.int32,
                      device="cuda").view(kind_of(dtype))  # fmt: skip
    return Placed(flat, torch.as_strided(flat, (batch, rows, cols), (stride, ld, 1), start))


def filled(case: Case) -> tuple[Placed, Placed, Placed]:
    """A and B as stored, with values, and an output of NaN. BLAS reads neither A nor B where alpha is 0."""
    p, (many_a, many_b, _) = case.problem, case.problem.copies
    a = placed(p.a_shape, p.lda, 1 if case.shared == "a" else many_a, p.stride_a, case.offsets[0], p.dtype)
    b = placed(p.b_shape, p.ldb, 1 if case.shared == "b" else many_b, p.stride_b, case.offsets[1], p.dtype)
    if p.alpha != 0:
        a.view.normal_()
        b.view.normal_()
    return a, b, placed(p.c_shape, p.ldc, p.batch, p.stride_c, case.offsets[2], p.out_dtype)


def logical(stored: Any, transposed: bool, one: bool) -> Any:
    """As the caller of ``gemm`` has it: rank 2 for one matrix."""
    turned = stored.transpose(1, 2) if transposed else stored
    return turned[0] if one else turned


def activated(name: str, x: Any) -> Any:
    if name == "gelu":
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2.0)))
    return {"": lambda v: v, "relu": torch.relu, "silu": lambda v: v * torch.sigmoid(v)}[name](x)


def rho(problem: Problem, a: Any, b: Any, c: Any, bias: Any, got: Any) -> float:
    """The largest error of any element in the units of the gate, as verify/oracles/bounds.py has them."""
    value = scale = torch.zeros((), dtype=torch.float64, device="cuda")
    if problem.alpha != 0 and problem.k > 0:
        wide_a, wide_b = a.double(), b.double()
        value, scale = problem.alpha * (wide_a @ wide_b), abs(problem.alpha) * (wide_a.abs() @ wide_b.abs())
    if problem.beta != 0:
        value, scale = value + problem.beta * c.double(), scale + abs(problem.beta) * c.double().abs()
    if bias is not None:
        wide = bias.double() if problem.bias == "column" else bias.double()[:, None]
        value, scale = value + wide, scale + wide.abs()
    value, scale = activated(problem.activation, value), SLOPES[problem.activation] * scale
    at_0, at_1 = map(float, output_rounding(problem.out_dtype, np.array([0.0, 1.0])))
    floor = absolute_floor(problem) + at_0 + (at_1 - at_0) * value.abs()
    error = (got.double() - value).abs()
    unit = accuracy(problem.dtype.name, problem.k).unit
    ratio = torch.where(
        scale == 0, torch.where(error == 0, 0.0, math.inf), (error - floor).clamp(min=0) / (unit * scale)
    )
    return float(torch.where(error.isnan(), math.inf, ratio).max())


def fault(case: Case, call: Callable[..., Any]) -> str:
    """What is wrong with one product; empty if nothing is."""
    p = case.problem
    one = p.batch == 1
    a, b, out = filled(case)
    left, right = (
        logical(a.view, p.trans_a, one or case.shared == "a"),
        logical(b.view, p.trans_b, one or case.shared == "b"),
    )
    target = out.view[0] if one else out.view
    c = kept = bias = None
    if p.beta != 0:
        c = torch.randn(target.shape, device="cuda").to(target.dtype)
        kept = c.clone()
        if case.in_place:
            target.copy_(c)
            c = target
    if p.bias:
        bias = torch.randn(p.bias_length, device="cuda").to(target.dtype)
    given = None if bias is None else bias if p.bias == "column" else bias[:, None]
    try:
        call(left, right, c, alpha=p.alpha, beta=p.beta, bias=given, activation=p.activation,
             out_dtype=p.out_dtype.name, out=target)  # fmt: skip
    except GemmsmithError as error:
        return f"{case}: {error}"
    gate = accuracy(p.dtype.name, p.k).gate
    worst = rho(p, left, right, kept, bias, target)
    found = [] if worst <= gate else [f"rho {worst:.3g} exceeds {gate:.3g}"]
    if c is not None and kept is not None and not case.in_place and not torch.equal(c, kept):
        found.append("C was changed")
    found += [f"{name}: {n} elements outside were written" for name, each in (("A", a), ("B", b), ("C", out))
              if (n := each.damage())]  # fmt: skip
    return f"{case}: {', '.join(found)}" if found else ""


@pytest.mark.parametrize("spec", HOPPER, ids=NAMES)
def test_random_products(spec: KernelSpec) -> None:
    def call(*operands: Any, **options: Any) -> Any:
        return gemmsmith.gemm(*operands, kernel=spec, config=case.config, **options)

    faults = []
    for case in rung_cases(spec, CASES_A_RUNG):
        if found := fault(case, call):
            faults.append(found)
    assert not faults, f"{len(faults)} of {CASES_A_RUNG}:\n" + "\n".join(faults[:10])


def test_random_products_of_unaligned_operands() -> None:
    """Beside their lines lie NaNs, which a zero does not cancel."""
    found = unaligned_cases(UNALIGNED_CASES)
    of_one = [c for c in found if c.config and c.config["UNALIGNED_OPERANDS"] == 1]
    of_both = [c for c in found if c.config and c.config["UNALIGNED_OPERANDS"] == 2]
    odd = [c for c in of_one if c.config and (c.problem.ldb if c.config["SWAP"] else c.problem.lda) % 8]
    assert len(odd) > len(of_one) // 4
    assert sum(c.problem.lda % 8 > 0 and c.problem.ldb % 8 > 0 for c in of_both) > len(of_both) // 8

    def call(*operands: Any, **options: Any) -> Any:
        return gemmsmith.gemm(*operands, kernel=SPLIT_K, config=case.config, **options)

    faults = []
    for case in found:
        if fault_of := fault(case, call):
            faults.append(fault_of)
    assert not faults, f"{len(faults)} of {len(found)}:\n" + "\n".join(faults[:10])


def test_random_products_of_wgmma_cluster_with_divided_k() -> None:
    def call(*operands: Any, **options: Any) -> Any:
        return gemmsmith.gemm(*operands, kernel=CLUSTER, config=case.config, **options)

    faults = []
    for case in divided_k_cases(DIVIDED_K_CASES):
        if found := fault(case, call):
            faults.append(found)
    assert not faults, f"{len(faults)} of {DIVIDED_K_CASES}:\n" + "\n".join(faults[:10])


def test_random_products_in_tiles_of_two_widths() -> None:
    """Each is computed twice: no bit depends on who had which tile."""
    found = tail_cases(TAIL_CASES)
    assert sum(has_two_widths(case, cuda_device().sms) for case in found) > TAIL_CASES // 8
    faults: list[str] = []

    def call(*operands: Any, out: Any, **options: Any) -> None:
        results, before = [], out.clone()  # which may be C as well
        for _ in range(2):
            out.copy_(before)
            gemmsmith.gemm(*operands, kernel=CLUSTER, config=case.config, out=out, **options)
            results.append(out.clone())
        if not torch.equal(*results):
            faults.append(f"{case}: other bits the second time")

    for case in found:
        if fault_of := fault(case, call):
            faults.append(fault_of)
    assert not faults, f"{len(faults)} of {len(found)}:\n" + "\n".join(faults[:10])


def test_random_products_of_the_choice() -> None:
    chosen = own_choices()
    assert len(chosen) >= 100
    assert len(Counter(spec.name for _, spec in chosen)) >= 2
    faults = [found for case, _ in chosen if (found := fault(case, gemmsmith.gemm))]
    assert not faults, f"{len(faults)} of {len(chosen)}:\n" + "\n".join(faults[:10])


def test_a_wrong_product_is_a_fault() -> None:
    """The judge itself: one wrong element, one write outside, one NaN that was read."""
    spec = HOPPER[0]
    case = next(c for c in rung_cases(spec, CASES_A_RUNG)
                if c.problem.m > 2 and c.problem.n > 2 and c.problem.k > 64 and c.problem.alpha == 1
                and not c.problem.activation and c.problem.batch == 1)  # fmt: skip

    def spoiled(how: Callable[[Any], None]) -> str:
        def call(*operands: Any, **options: Any) -> None:
            how(gemmsmith.gemm(*operands, kernel=spec, config=case.config, **options))

        return fault(case, call)

    assert spoiled(lambda _out: None) == ""
    assert "rho" in spoiled(lambda out: out[1, 1].mul_(1.5).add_(1.0))
    assert "rho inf" in spoiled(lambda out: out[0, 0].fill_(math.nan))
    assert "C: 1 elements" in spoiled(lambda out: torch.as_strided(out, (1,), (1,), out.storage_offset() - 1).zero_())


# --- order: kernels that may start before the one in front of them has ended


def plain(*shape: int, scale: float = 1.0) -> Any:
    return (torch.randn(*shape, device="cuda") * scale).bfloat16()


def product(name: str, a: Any, b: Any, out: Any = None) -> Any:
    return gemmsmith.gemm(a, b, kernel=name, out_dtype="bf16", out=out)


SIZES = (512, 509)  # as they are, and with copies of both operands


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_each_product_waits_for_the_one_before(name: str, size: int) -> None:
    """C of one is A of the next, and the third overwrites what the second has read."""
    weights = [plain(size, size, scale=size**-0.5) for _ in range(40)]
    start = plain(size, size)

    def chain(after_each: Callable[[], None]) -> Any:
        buffers = [start.clone(), torch.empty_like(start)]
        torch.cuda.synchronize()
        for i, weight in enumerate(weights):
            product(name, buffers[i % 2], weight, buffers[1 - i % 2])
            after_each()
        return buffers[len(weights) % 2]

    expected = chain(torch.cuda.synchronize)
    assert bool(expected.isfinite().all())
    assert float(expected.float().std()) > 0.1
    for _ in range(5):
        assert torch.equal(chain(lambda: None), expected)


@pytest.mark.parametrize("name", NAMES)
def test_products_between_kernels_of_others(name: str) -> None:
    """Inputs are written right before, the output is overwritten right after, and neither is seen too early or late."""
    a, b = plain(640, 704), plain(704, 768)
    expected = product(name, a, b)
    work_a, work_b = torch.full_like(a, math.nan), torch.full_like(b, math.nan)
    out, results = torch.empty_like(expected), []
    torch.cuda.synchronize()
    for _ in range(30):
        work_a.copy_(a)
        work_b.copy_(b)
        product(name, work_a, work_b, out)
        work_a.fill_(math.nan)
        work_b.fill_(math.nan)
        results.append(out.clone())
        out.fill_(math.nan)
    assert all(torch.equal(result, expected) for result in results)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_memory_given_back_early_is_not_missed(name: str, size: int) -> None:
    """The allocator gives operands and workspaces to the next request on the stream, here NaN and other products."""
    pairs = [(plain(size, size), plain(size, size)) for _ in range(12)]
    expected = [product(name, a, b) for a, b in pairs]
    torch.cuda.synchronize()
    results, reused = [], 0
    for a, b in pairs:
        mine, other = a.clone(), b.clone()
        results.append(product(name, mine, other))
        addresses = {mine.data_ptr(), other.data_ptr()}
        del mine, other
        fresh = [torch.full_like(a, math.nan) for _ in range(4)]
        reused += bool(addresses & {each.data_ptr() for each in fresh})
        del fresh
    assert reused, "the allocator gave nothing back: this tests nothing"
    assert all(map(torch.equal, results, expected))


# --- streams, graphs, bits


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_the_same_bits_every_time_beside_a_busy_stream(name: str, size: int) -> None:
    a, b = plain(size, 4 * size), plain(4 * size, size)
    first = product(name, a, b)
    busy, noise = torch.cuda.Stream(), [plain(2048, 2048) for _ in range(2)]
    torch.cuda.synchronize()
    results = []
    for _ in range(20):
        with torch.cuda.stream(busy):
            noise[0] @ noise[1]
            noise[0].add_(0)
        results.append(product(name, a, b))
    assert all(torch.equal(result, first) for result in results)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        other = product(name, a, b)
    product(name, a, b)
    side.synchronize()
    assert torch.equal(other, first)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_captured_into_a_graph_and_replayed(name: str, size: int) -> None:
    a, b = plain(size, size, scale=size**-0.5), plain(size, size)
    middle, last = torch.empty_like(b), torch.empty_like(b)
    product(name, a, product(name, a, b, middle), last)  # loads what a capture may not
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with capture(graph):
        product(name, a, b, middle)
        product(name, a, middle, last)
    for _ in range(3):
        b.copy_(plain(size, size))
        middle.fill_(math.nan)
        last.fill_(math.nan)
        graph.replay()
        expected = product(name, a, product(name, a, b))
        assert torch.equal(last, expected)
        assert bool(last.isfinite().all())


def test_sums_in_order_of_arrival_are_right_and_must_be_asked_for() -> None:
    torch = pytest.importorskip("torch")
    changes = {"SPLIT": 8, "CLUSTERS": 8, "DETERMINISTIC": 0}
    for m, n, k, layout in ((64, 64, 40_000, "NN"), (130, 100, 12_345, "NT"), (5, 70, 100, "TN")):
        a = torch.randn(*((k, m) if layout[0] == "T" else (m, k)), device="cuda").bfloat16()
        b = torch.randn(*((n, k) if layout[1] == "T" else (k, n)), device="cuda").bfloat16()
        a, b = (a.T if layout[0] == "T" else a), (b.T if layout[1] == "T" else b)
        with pytest.raises(ConfigError, match="arrival order"):
            gemmsmith.gemm(a, b, kernel="wgmma_split_k", config=changes)
        exact, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()
        for _ in range(5):
            got = gemmsmith.gemm(a, b, kernel="wgmma_split_k", config=changes, deterministic=False)
            assert float(((got.double() - exact).abs() / scale).max()) < 1e-5
        ordered = [
            gemmsmith.gemm(a, b, kernel="wgmma_split_k", config=changes | {"DETERMINISTIC": 1}) for _ in range(5)
        ]
        assert all(torch.equal(ordered[0], other) for other in ordered)
        assert float(((ordered[0].double() - exact).abs() / scale).max()) < 1e-5
