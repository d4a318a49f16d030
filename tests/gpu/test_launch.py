"""gemm on a GPU: tensors of several libraries, streams, graphs, errors. Run with ``pytest -m gpu tests/gpu``."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from torch_graphs import capture

import gemmsmith
from gemmsmith.errors import DTypeError, LaunchError, ProblemError, UnsupportedError
from gemmsmith.run.cuda import cuda_device, gpu_available
from gemmsmith.run.tensors import matrix

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]

RUNGS = [spec.name for spec in gemmsmith.kernels()]
FP32_RUNGS = [spec.name for spec in gemmsmith.kernels() if spec.dtypes[0].name == "fp32"]


@pytest.fixture(name="torch")
def _torch() -> Any:
    torch = pytest.importorskip("torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch


def close(got: Any, expected: Any) -> None:
    assert float((got.double() - expected.double()).abs().max()) < 1e-3


@pytest.mark.parametrize("kernel", FP32_RUNGS)
def test_every_fp32_rung_on_torch_tensors(torch: Any, kernel: str) -> None:
    a, b = torch.randn(301, 257, device="cuda"), torch.randn(257, 203, device="cuda")
    close(gemmsmith.gemm(a, b, kernel=kernel), a.double() @ b.double())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types(torch: Any, dtype: str) -> None:
    kind = getattr(torch, dtype)
    a, b = torch.randn(130, 77, device="cuda").to(kind), torch.randn(77, 140, device="cuda").to(kind)
    assert gemmsmith.matmul(a, b).dtype == kind  # torch's rule; it was float32 before 0.3
    out = gemmsmith.matmul(a, b, out_dtype=torch.float32)
    assert out.dtype == torch.float32
    close(out, a.double() @ b.double())


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_transposed_views_are_not_copied(torch: Any, layout: str) -> None:
    a = torch.randn(65, 33, device="cuda") if layout[0] == "N" else torch.randn(33, 65, device="cuda").T
    b = torch.randn(33, 40, device="cuda") if layout[1] == "N" else torch.randn(40, 33, device="cuda").T
    assert matrix("a", a).transposed == (layout[0] == "T")
    close(gemmsmith.matmul(a, b), a.double() @ b.double())
    if layout != "NN":
        with pytest.raises(UnsupportedError, match="naive or coalesced"):
            gemmsmith.gemm(a, b, kernel="warp_tile")


def test_sliced_and_offset_views(torch: Any) -> None:
    big = torch.randn(200, 301, device="cuda")
    a, b = big[3:70, 5:105], big[7:107, 1:60]
    close(gemmsmith.matmul(a, b), a.double() @ b.double())


def test_beta_reads_c_and_does_not_change_it(torch: Any) -> None:
    a, b, c = (torch.randn(96, 96, device="cuda") for _ in range(3))
    before = c.clone()
    close(gemmsmith.gemm(a, b, c, alpha=0.5, beta=-2), 0.5 * (a.double() @ b.double()) - 2 * c.double())
    assert torch.equal(c, before)
    out = c.clone()
    assert gemmsmith.gemm(a, b, out, beta=1, out=out) is out
    close(out, a.double() @ b.double() + before.double())


def test_beta_zero_never_reads_out(torch: Any) -> None:
    a, b = torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")
    out = torch.full((64, 64), float("nan"), device="cuda")
    gemmsmith.gemm(a, b, out=out)
    close(out, a.double() @ b.double())


@pytest.mark.parametrize("shape", [(0, 5, 5), (5, 0, 5), (5, 5, 0), (0, 0, 0)])
def test_empty_extents(torch: Any, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    out = gemmsmith.matmul(torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda"))
    assert tuple(out.shape) == (m, n)
    assert not out.numel() or bool((out == 0).all())


def test_launches_on_the_callers_stream_without_synchronizing(torch: Any) -> None:
    a, b = torch.randn(512, 512, device="cuda"), torch.randn(512, 512, device="cuda")
    gemmsmith.matmul(a, b)
    stream, gate = torch.cuda.Stream(), torch.cuda.Event()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(400_000_000)
        out = gemmsmith.matmul(a, b)
        gate.record()
        assert not gate.query(), "the launch waited, or ran on another stream"
    torch.cuda.synchronize()
    close(out, a.double() @ b.double())


def test_captured_in_a_cuda_graph(torch: Any) -> None:
    a, b = torch.randn(256, 128, device="cuda"), torch.randn(128, 256, device="cuda")
    out = gemmsmith.matmul(a, b)
    graph = torch.cuda.CUDAGraph()
    with capture(graph):
        gemmsmith.gemm(a, b, out=out)
    a.normal_()
    b.normal_()
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    close(out, a.double() @ b.double())


@pytest.mark.parametrize("kernel", RUNGS)
def test_repeated_runs_give_the_same_bits_with_another_stream_busy(torch: Any, kernel: str) -> None:
    kind = torch.float32 if kernel in FP32_RUNGS else torch.float16
    a, b = torch.randn(400, 300, device="cuda").to(kind), torch.randn(300, 350, device="cuda").to(kind)
    first = gemmsmith.gemm(a, b, kernel=kernel)
    busy = torch.cuda.Stream()
    for _ in range(10):
        with torch.cuda.stream(busy):
            torch.randn(2048, 2048, device="cuda") @ torch.randn(2048, 2048, device="cuda")
        assert torch.equal(gemmsmith.gemm(a, b, kernel=kernel), first)


def test_cupy(torch: Any) -> None:
    del torch
    cupy = pytest.importorskip("cupy")
    a, b = cupy.random.randn(70, 50).astype(cupy.float32), cupy.random.randn(50, 60).astype(cupy.float32)
    out = gemmsmith.matmul(a, b)
    assert isinstance(out, cupy.ndarray)
    np.testing.assert_allclose(cupy.asnumpy(out), cupy.asnumpy(a) @ cupy.asnumpy(b), rtol=1e-3, atol=1e-4)


class OnlyDlpack:
    """A tensor with nothing but the DLPack protocol."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


class OnlyInterface:
    """A tensor with nothing but the CUDA array interface."""

    def __init__(self, tensor: Any) -> None:
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__
        self._keep = tensor


@pytest.mark.parametrize("wrapper", [OnlyDlpack, OnlyInterface])
def test_exchange_protocols(torch: Any, wrapper: Any) -> None:
    a, b = torch.randn(70, 50, device="cuda"), torch.randn(50, 60, device="cuda")
    out = torch.empty(70, 60, device="cuda")
    torch.cuda.synchronize()
    gemmsmith.gemm(wrapper(a), wrapper(b), out=wrapper(out))
    torch.cuda.synchronize()
    close(out, a.double() @ b.double())
    with pytest.raises(DTypeError, match="pass out="):
        gemmsmith.matmul(wrapper(a), wrapper(b))


def test_wrong_operands_are_named(torch: Any) -> None:
    a = torch.randn(8, 8, device="cuda")
    with pytest.raises(DTypeError, match=r"torch\.float64"):
        gemmsmith.matmul(a.double(), a)
    with pytest.raises(DTypeError, match="on the CPU"):
        gemmsmith.matmul(a.cpu(), a)
    with pytest.raises(ProblemError, match="rank 4"):  # matmul takes any rank and any strides
        gemmsmith.gemm(a[None, None], a)
    with pytest.raises(ProblemError, match="differ"):
        gemmsmith.matmul(a[:, :4], a)
    with pytest.raises(ProblemError, match="contiguous"):
        gemmsmith.gemm(torch.randn(16, 16, device="cuda")[::2, ::2], a)
    with pytest.raises(ProblemError, match="overlaps a"):
        gemmsmith.gemm(a, a.clone(), out=a)
    with pytest.raises(DTypeError, match="requires grad"):  # matmul and gemm record gradients, a plan does not
        gemmsmith.plan(a.clone().requires_grad_(), a)
    with pytest.raises(DTypeError, match="b is a ndarray, not a tensor"):
        gemmsmith.matmul(a, np.zeros((8, 8), np.float32))


def test_inputs_may_be_freed_before_the_kernel_runs(torch: Any) -> None:
    a, b = torch.randn(1024, 1024, device="cuda"), torch.randn(1024, 1024, device="cuda")
    expected = a.double() @ b.double()
    torch.cuda.synchronize()
    torch.cuda._sleep(50_000_000)
    out = gemmsmith.matmul(a, b)
    del a, b
    torch.randn(1024, 1024, device="cuda")
    torch.randn(1024, 1024, device="cuda")
    close(out, expected)


def test_a_sticky_fault_stays_in_the_child_process(tmp_path: Any) -> None:
    bad = tmp_path / "bad.cu"
    bad.write_text(
        'extern "C" __global__ void bad(const float* A, const float* B, float* C, int M, int N, int K) {\n'
        "    C[(long long)threadIdx.x * 1000000000000LL] = A[0] * B[0];\n}\n"
    )
    command = [sys.executable, "-m", "gemmsmith", "run", str(bad), "--device", "gpu", "--block", "32", "--grid", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    device = cuda_device()
    device.synchronize()
    address = device.allocate(16)
    device.free(address)


def test_too_much_shared_memory_is_refused_with_the_numbers() -> None:
    device = cuda_device()
    spec = gemmsmith.kernels()[0]
    from gemmsmith.compile.compiler import compile_kernel
    from gemmsmith.kernel.geometry import Geometry
    from gemmsmith.problem import FP32
    from gemmsmith.run.device import Launch

    loaded = device.load(compile_kernel(spec, spec.config(), dtype=FP32, arch=device.arch))
    with pytest.raises(LaunchError, match="500000 bytes"):
        device.launch(loaded, Launch(Geometry((1, 1, 1), (32, 1, 1), 500000), ()))


def test_the_callers_context_is_restored(torch: Any) -> None:
    from cuda.bindings import driver

    a = torch.randn(64, 64, device="cuda")
    before = int(driver.cuCtxGetCurrent()[1])
    gemmsmith.gemm(a, a.clone(), a.clone(), beta=1)
    assert int(driver.cuCtxGetCurrent()[1]) == before


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_batches_bias_and_activation_on_tensor_cores(torch: Any, dtype: str) -> None:
    kind = getattr(torch, dtype)
    a = torch.randn(3, 65, 72, device="cuda").to(kind)
    b = torch.randn(72, 40, device="cuda").to(kind)
    bias = torch.randn(40, device="cuda").to(kind)
    name = {"float16": "fp16", "bfloat16": "bf16"}[dtype]
    got = gemmsmith.gemm(a, b, bias=bias, activation="relu", out_dtype=name)
    expected = torch.relu(a.double() @ b.double() + bias.double())
    assert got.shape == (3, 65, 40)
    assert got.dtype == kind
    torch.testing.assert_close(got.double(), expected, rtol=2.0**-7, atol=2.0**-7)
    shared = gemmsmith.gemm(a.transpose(1, 2).contiguous().transpose(1, 2), b[None].expand(3, 72, 40))
    torch.testing.assert_close(shared.double(), a.double() @ b.double(), rtol=1e-4, atol=1e-4)


def test_tf32_must_be_named(torch: Any) -> None:
    a, b = torch.randn(128, 256, device="cuda"), torch.randn(256, 64, device="cuda")
    exact = a.double() @ b.double()
    plain, rounded = gemmsmith.gemm(a, b), gemmsmith.gemm(a, b, dtype="tf32")
    assert (plain.double() - exact).abs().max() < 1e-4 < (rounded.double() - exact).abs().max() < 0.2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", [128, 131])  # 131: rows are copied to aligned ones first
def test_repeated_calls_at_many_addresses(torch: Any, dtype: str, size: int) -> None:
    """Calls with one key share everything but the addresses, which every call must fill in for itself."""
    kind = getattr(torch, dtype)
    sets = [[torch.randn(size, size, device="cuda").to(kind) for _ in range(2)] for _ in range(12)]
    expected = [a.double() @ b.double() for a, b in sets]
    outs = [torch.empty(size, size, device="cuda") for _ in sets]
    for _ in range(3):
        for (a, b), exact, out in zip(sets, expected, outs, strict=True):
            close(gemmsmith.gemm(a, b), exact)
            out.fill_(float("nan"))
            gemmsmith.gemm(a, b, out=out)
            close(out, exact)
            close(gemmsmith.gemm(a, b, out, beta=1.0), 2 * exact)


def test_parameters_while_no_gradients_are_recorded(torch: Any) -> None:
    weight = torch.nn.Parameter(torch.randn(96, 64, device="cuda"))
    x = torch.randn(32, 96, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            close(gemmsmith.gemm(x, weight), x.double() @ weight.double())
    found = gemmsmith.gemm(x, weight)
    assert found.requires_grad
    close(found.detach(), x.double() @ weight.detach().double())
    with torch.inference_mode():
        close(gemmsmith.gemm(x, weight), x.double() @ weight.double())
