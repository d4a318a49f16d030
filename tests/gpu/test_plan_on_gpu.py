"""Plans on a GPU: the bits of gemm, operand sets, streams, threads, graphs, memory. ``pytest -m gpu tests/gpu``."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
from torch_graphs import capture

import gemmsmith
from gemmsmith.errors import DTypeError, ProblemError
from gemmsmith.problem import BF16
from gemmsmith.run.cuda import cuda_device, gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]

SIZES = (512, 509)  # aligned, and with rows that a Hopper rung must copy first


@pytest.fixture(name="torch")
def _torch() -> Any:
    return pytest.importorskip("torch")


def plain(torch: Any, *shape: int, scale: float = 1.0) -> Any:
    return (torch.randn(*shape, device="cuda") * scale).bfloat16()


@pytest.mark.parametrize("size", SIZES)
def test_the_bits_of_gemm_in_the_same_output(torch: Any, size: int) -> None:
    a, b = plain(torch, size, size), plain(torch, size, size)
    plan = gemmsmith.plan(a, b, out_dtype="bf16")
    out = plan()
    assert torch.equal(out, gemmsmith.gemm(a, b, out_dtype="bf16"))
    a.normal_()
    assert plan() is out
    assert torch.equal(out, gemmsmith.gemm(a, b, out_dtype="bf16"))
    assert plan.source in ("tuned", "shipped", "model", "default")
    assert plan.kernel in repr(plan)
    assert plan.launches == 1 or plan.workspace_bytes > 0


@pytest.mark.parametrize("size", SIZES)
def test_operand_sets(torch: Any, size: int) -> None:
    sets = [(plain(torch, size, size), plain(torch, size, size)) for _ in range(3)]
    outs = [torch.full((size, size), math.nan, dtype=torch.bfloat16, device="cuda") for _ in sets]
    plan = gemmsmith.plan(*sets[0], out=outs[0])
    plan()
    for _ in range(3):
        for (a, b), out in zip(sets, outs, strict=True):
            out.fill_(math.nan)
            assert plan(a, b, out=out) is out
    for (a, b), out in zip(sets, outs, strict=True):
        assert torch.equal(out, gemmsmith.gemm(a, b, out_dtype="bf16"))


@pytest.mark.parametrize(
    "kernel", [spec.name for spec in gemmsmith.kernels() if spec.arch_specific and BF16 in spec.dtypes]
)
def test_consecutive_plans_wait_for_each_other(torch: Any, kernel: str) -> None:
    """The output of one plan is an operand of the next, which overwrites an operand of the first."""
    if cuda_device().arch != "sm_90":
        pytest.skip("needs a Hopper GPU")
    weight, start = plain(torch, 512, 512, scale=512**-0.5), plain(torch, 512, 512)
    x, y = start.clone(), torch.empty_like(start)
    there = gemmsmith.plan(x, weight, out=y, kernel=kernel)
    back = gemmsmith.plan(y, weight, out=x, kernel=kernel)
    results = []
    for synchronize in (torch.cuda.synchronize, lambda: None, lambda: None):
        x.copy_(start)
        torch.cuda.synchronize()
        for _ in range(25):
            there()
            synchronize()
            back()
            synchronize()
        results.append(x.clone())
    assert float(results[0].float().std()) > 0.1
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_beta_bias_and_activation(torch: Any) -> None:
    a, b, c = (plain(torch, 256, 256) for _ in range(3))
    bias = plain(torch, 256)
    options: dict[str, Any] = {"alpha": 0.5, "beta": -1, "bias": bias, "activation": "gelu", "out_dtype": "bf16"}
    plan = gemmsmith.plan(a, b, c, **options)
    assert torch.equal(plan(), gemmsmith.gemm(a, b, c, **options))
    other, more = plain(torch, 256, 256), plain(torch, 256)
    assert torch.equal(plan(c=other, bias=more), gemmsmith.gemm(a, b, other, **{**options, "bias": more}))
    assert torch.equal(plan(), gemmsmith.gemm(a, b, c, **options))


@pytest.mark.parametrize("size", SIZES)
def test_streams_without_synchronizing(torch: Any, size: int) -> None:
    a, b = plain(torch, size, size), plain(torch, size, size)
    plan = gemmsmith.plan(a, b, out_dtype="bf16")
    expected = plan().clone()
    stream, gate = torch.cuda.Stream(), torch.cuda.Event()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        plan().fill_(math.nan)
        out = plan()
        gate.record()
        assert not gate.query(), "the launch waited, or ran on another stream"
    torch.cuda.synchronize()
    assert torch.equal(out, expected)


def test_memory_is_allocated_and_freed_while_a_graph_is_captured(torch: Any) -> None:
    """As the garbage collector does when it finds a plan."""
    device = cuda_device()
    before = device.allocate(1 << 20)
    a, b = plain(torch, 512, 512), plain(torch, 512, 512)
    plan = gemmsmith.plan(a, b)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with capture(graph):
        device.free(before)
        device.free(device.allocate(1 << 20))
        out = plan()
    out.fill_(math.nan)
    graph.replay()
    assert torch.equal(out, gemmsmith.gemm(a, b))


@pytest.mark.parametrize("size", SIZES)
def test_captured_without_a_call_before(torch: Any, size: int) -> None:
    """A plan has loaded its kernels, so the first call may be captured, on a new stream."""
    a, b = plain(torch, size, size, scale=size**-0.5), plain(torch, size, size)
    first, last = torch.empty_like(b), torch.empty_like(b)
    plan = gemmsmith.plan(a, b, out=first)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with capture(graph):
        plan()
        plan(a, first, out=last)
    for _ in range(3):
        b.copy_(plain(torch, size, size))
        first.fill_(math.nan)
        last.fill_(math.nan)
        graph.replay()
        assert torch.equal(last, gemmsmith.gemm(a, gemmsmith.gemm(a, b, out_dtype="bf16"), out_dtype="bf16"))


def test_a_thread_that_has_not_used_the_gpu(torch: Any) -> None:
    a, b = plain(torch, 128, 128), plain(torch, 128, 128)
    plan = gemmsmith.plan(a, b, out_dtype="bf16")
    out = torch.empty(128, 128, dtype=torch.bfloat16, device="cuda")
    errors: list[BaseException] = []

    def work() -> None:
        try:
            plan()
            plan(out=out)
        except BaseException as error:
            errors.append(error)

    torch.cuda.synchronize()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert errors == []
    assert torch.equal(out, gemmsmith.gemm(a, b, out_dtype="bf16"))


def test_a_call_allocates_nothing(torch: Any) -> None:
    a, b = plain(torch, 509, 509), plain(torch, 509, 509)
    plan = gemmsmith.plan(a, b, out_dtype="bf16")
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(10):
        plan()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_a_plan_may_be_deleted_while_its_kernels_run(torch: Any) -> None:
    a, b = plain(torch, 509, 509), plain(torch, 509, 509)
    expected = gemmsmith.gemm(a, b, out_dtype="bf16")
    out, stream = torch.empty_like(expected), torch.cuda.Stream()
    plan = gemmsmith.plan(a, b, out=out)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        plan()
    del plan
    spoiler = [torch.full((1, 509 * 512 * 2 * n), 0x7F, dtype=torch.int8, device="cuda") for n in (1, 2)]
    torch.cuda.synchronize()
    del spoiler
    assert torch.equal(out, expected)


def test_operands_that_do_not_match(torch: Any) -> None:
    whole = plain(torch, 64, 72)
    a, b = plain(torch, 64, 64), plain(torch, 64, 64)
    plan = gemmsmith.plan(a, b)
    with pytest.raises(ProblemError, match="rows 72 elements apart"):
        plan(whole[:, :64])
    with pytest.raises(ProblemError, match="past a multiple of 16"):
        plan(plain(torch, 64 * 64 + 1)[1:].view(64, 64))
    with pytest.raises(DTypeError, match="fp16"):
        plan(a.half())
    with pytest.raises(DTypeError, match="on the CPU"):
        plan(a.cpu())
    with pytest.raises(DTypeError, match="requires grad"):
        plan(a.clone().requires_grad_())
    torch.testing.assert_close(plan().double(), a.double() @ b.double(), rtol=1e-4, atol=1e-4)


def test_cupy(torch: Any) -> None:
    del torch
    cupy = pytest.importorskip("cupy")
    a, b = cupy.random.randn(70, 51).astype(cupy.float16), cupy.random.randn(51, 60).astype(cupy.float16)
    plan = gemmsmith.plan(a, b)
    out = plan()
    assert isinstance(out, cupy.ndarray)
    exact = a.astype(cupy.float64) @ b.astype(cupy.float64)
    assert float(abs(out - exact).max()) < 1e-3
    other = cupy.random.randn(70, 51).astype(cupy.float16)
    exact = other.astype(cupy.float64) @ b.astype(cupy.float64)
    assert float(abs(plan(other) - exact).max()) < 1e-3
