"""fp32 by fp16 parts on a GPU: its own bits everywhere, the verdict, fallbacks, graphs. ``pytest -m gpu tests/gpu``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from torch_graphs import capture

import gemmsmith
from gemmsmith.fills import operands
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]

NAME, OTHER = "fp32_tensor_fp16x3", "fp32_tensor_bf16x6"


@pytest.fixture(name="torch")
def _torch() -> Any:
    return pytest.importorskip("torch")


def on_gpu(torch: Any, values: Any, transposed: bool) -> Any:
    stored = torch.from_numpy(np.ascontiguousarray(values)).cuda()
    return stored.T if transposed else stored


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(("fill", "method"), [("normal", "fp16x3"), ("graded", "fp16x3"), ("wide", "bf16x6")])
def test_the_bits_of_the_simulator(torch: Any, layout: str, fill: str, method: str) -> None:
    """Both round and cut off alike: so every output is the same, and so is the verdict."""
    p = Problem(200, 150, 97, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    data = operands(p, fill, 4)
    a, b = on_gpu(torch, data.a, p.trans_a), on_gpu(torch, data.b, p.trans_b)
    plan = gemmsmith.plan(a, b, kernel=NAME)
    got = plan().cpu().numpy()
    assert plan.method() == method
    left, right = (x.T if t else x for x, t in ((data.a, p.trans_a), (data.b, p.trans_b)))
    simulated = gemmsmith.gemm(left, right, kernel=NAME)
    assert np.array_equal(got.view(np.uint32), simulated.view(np.uint32))


@pytest.mark.parametrize("k", [33, 257, 4096])
@pytest.mark.parametrize("fill", ["normal", "uniform"])
def test_no_less_accurate_than_cublas(torch: Any, fill: str, k: int) -> None:
    p = Problem(1024, 1024, k)  # for fewer outputs cuBLAS divides K, which rounds less
    data = operands(p, fill, 1)
    a, b = on_gpu(torch, data.a, False), on_gpu(torch, data.b, False)
    assert not torch.backends.cuda.matmul.allow_tf32
    exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    plan = gemmsmith.plan(a, b, kernel=NAME)
    ours, theirs = (((each.double() - exact).abs() / size) for each in (plan(), a @ b))
    if k >= 257:
        assert plan.method() == "fp16x3"
    assert float((ours**2).mean()) <= 1.1 * float((theirs**2).mean())
    assert float(ours.max()) <= 1.25 * float(theirs.max())


@pytest.mark.parametrize("size", [512, 509])
def test_a_graph_decides_at_every_replay(torch: Any, size: int) -> None:
    """The data of a captured product change: by them alone another kernel computes it, and changes back."""
    a, b = torch.randn(size, size, device="cuda"), torch.randn(size, size, device="cuda")
    plan = gemmsmith.plan(a, b, kernel=NAME)
    out = plan()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with capture(graph):
        plan()
    good, bad = a.clone(), a.clone()
    bad[3, 5] = math.inf
    for values, method in ((good, "fp16x3"), (bad, "bf16x6"), (good, "fp16x3")):
        a.copy_(values)
        out.fill_(math.nan)
        graph.replay()
        assert plan.method() == method
        expected = gemmsmith.gemm(values, b, kernel=NAME if method == "fp16x3" else OTHER)
        assert torch.equal(out[[0, 1, 2, 4]], expected[[0, 1, 2, 4]])
        assert bool(torch.isfinite(out).all()) == (method == "fp16x3")


def test_batches_views_and_streams(torch: Any) -> None:
    """Rows that start anywhere, one B for a batch, alpha, beta and a bias, on a stream of the caller's."""
    a = torch.randn(5, 130, 201, device="cuda")[:, 1:, 3:]
    b, c = torch.randn(198, 77, device="cuda"), torch.randn(5, 129, 77, device="cuda")
    bias = torch.randn(77, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        got = gemmsmith.gemm(a, b, c, alpha=0.5, beta=-2.0, bias=bias, activation="relu", kernel=NAME)
    torch.cuda.current_stream().wait_stream(stream)
    exact = torch.relu(0.5 * (a.double() @ b.double()) - 2.0 * c.double() + bias.double())
    assert torch.allclose(got.double(), exact, rtol=1e-5, atol=1e-4)


def test_products_in_a_row_share_a_workspace(torch: Any) -> None:
    """The next product's verdict must not reach the last one's kernels, nor its parts overwrite theirs."""
    sets = [(torch.randn(300, 300, device="cuda"), torch.randn(300, 300, device="cuda")) for _ in range(4)]
    sets[1][0][0, 0] = math.nan
    sets[2][1][7, 7] = math.inf
    plan = gemmsmith.plan(*sets[0], kernel=NAME)
    outs = [torch.empty(300, 300, device="cuda") for _ in sets]
    for _ in range(20):
        for (a, b), out in zip(sets, outs, strict=True):
            plan(a, b, out=out)
    for (a, b), out in zip(sets, outs, strict=True):
        torch.cuda.synchronize()
        alone = gemmsmith.gemm(a, b, kernel=NAME)
        assert torch.equal(torch.nan_to_num(out), torch.nan_to_num(alone))
