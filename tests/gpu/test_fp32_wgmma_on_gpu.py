"""fp32 by wgmma on a GPU: random problems, infinities and NaN, the verdict and who computes, graphs, streams."""

from __future__ import annotations

import math
from typing import Any

import pytest
from torch_graphs import capture

import gemmsmith
from gemmsmith.run.cuda import cuda_device, gpu_available

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_available() or cuda_device().arch != "sm_90", reason="needs a Hopper GPU"),
]

SIX, THREE, IN_REGISTERS = "fp32_wgmma_bf16x6", "fp32_wgmma_fp16x3", "fp32_wgmma_registers"
U = 2.0**-24


@pytest.fixture(name="torch")
def _torch() -> Any:
    found = pytest.importorskip("torch")
    found.backends.cuda.matmul.allow_tf32 = False
    found.manual_seed(0)
    return found


def stored(torch: Any, rows: int, cols: int, transposed: bool, pad: int, batch: int = 0) -> Any:
    """A matrix in a larger one full of NaN, row by row or column by column."""
    height, width = (cols, rows) if transposed else (rows, cols)
    around = torch.full((*([batch] if batch else []), height + 2, width + pad), math.nan, device="cuda")
    inside = around[..., 1:-1, pad // 2 : pad // 2 + width]
    inside.normal_()
    return inside.mT if transposed else inside


def error(got: Any, a: Any, b: Any) -> float:
    """The component-wise one, in units of fp32's roundoff."""
    exact, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    return float(((got.double() - exact).abs() / (U * scale + 1e-300)).max())


@pytest.mark.parametrize("kernel", [SIX, THREE, IN_REGISTERS])
def test_random_problems_between_nans(torch: Any, kernel: str) -> None:
    dice = torch.Generator().manual_seed(1)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=dice))

    for i in range(120):
        m, n, k = (draw(1, 700) if draw(0, 4) else 64 * draw(1, 12) for _ in range(3))
        a = stored(torch, m, k, bool(i & 1), (0, 1, 6, 8)[draw(0, 4)])
        b = stored(torch, k, n, bool(i & 2), (0, 2, 5, 8)[draw(0, 4)])
        out = torch.full((m + 2, n + 8), math.nan, device="cuda")
        target = out[1:-1, 4:-4] if i % 3 else out[1:-1, 1 : 1 + n]
        gemmsmith.gemm(a, b, kernel=kernel, out=target)
        assert error(target, a, b) < 8, (m, n, k, i)
        assert int(out.isnan().sum()) == (m + 2) * (n + 8) - m * n, "nothing was written around it"


@pytest.mark.parametrize(("kernel", "width", "stages"), [
    (THREE, 176, 5), (THREE, 160, 5), (THREE, 144, 5), (THREE, 128, 6), (THREE, 112, 6), (THREE, 96, 7), (SIX, 112, 6),
    (SIX, 96, 6),
])  # fmt: skip
def test_tiles_of_every_width(torch: Any, kernel: str, width: int, stages: int) -> None:
    """Ragged and whole, in every layout."""
    for i, (m, n, k) in enumerate(((300, 3 * width + 5, 333), (257, width - 1, 64), (512, 4 * width, 640), (1, 1, 40))):
        a, b = stored(torch, m, k, bool(i & 1), 8), stored(torch, k, n, bool(i & 2), 8)
        got = gemmsmith.gemm(a, b, kernel=kernel, config={"BN": width, "STAGES": stages})
        assert error(got, a, b) < 8, (m, n, k)


@pytest.mark.parametrize("changes", [
    {"SWAP": 1, "SPLIT": 2}, {"BM": 64, "BN": 16, "STAGES": 5, "SPLIT": 8, "SWAP": 1}, {"BM": 64, "BN": 48, "SPLIT": 4},
    {"BN": 128, "STAGES": 2, "COMPENSATED": 0}, {"BM": 192, "BN": 32, "SWAP": 1}, {"BN": 80, "STAGES": 2},
    {"BN": 112, "STAGES": 2, "COMPENSATED": 0, "SWAP": 1},
])  # fmt: skip
def test_splitting_in_registers_in_every_layout(torch: Any, changes: dict[str, int]) -> None:
    """Ragged and whole, rows that start on 16 bytes and others, more tiles than SMs."""
    for i, (m, n, k) in enumerate(((300, 205, 333), (64, 1024, 640), (1, 513, 100), (130, 70, 4097), (9000, 200, 72))):
        for j in range(4):
            a = stored(torch, m, k, bool(j & 1), (0, 1, 8)[i % 3])
            b = stored(torch, k, n, bool(j & 2), (8, 3, 0)[i % 3])
            assert error(gemmsmith.gemm(a, b, kernel=IN_REGISTERS, config=changes), a, b) < 8, (m, n, k, j)


@pytest.mark.parametrize("kernel", [SIX, THREE, IN_REGISTERS])
def test_batches_alpha_beta_bias_and_activation(torch: Any, kernel: str) -> None:
    for batch, shared in ((3, False), (4, True)):
        a = stored(torch, 130, 200, True, 3, batch)
        b = stored(torch, 200, 150, False, 1, 0 if shared else batch)
        c, bias = torch.randn(batch, 130, 150, device="cuda"), torch.randn(150, device="cuda")
        got = gemmsmith.gemm(a, b, c, alpha=-1.5, beta=0.5, bias=bias, activation="relu", kernel=kernel)
        exact = (-1.5 * (a.double() @ b.double()) + 0.5 * c.double() + bias.double()).relu()
        assert float((got.double() - exact).abs().max()) < 1e-4
    for k, alpha in ((0, 1.0), (64, 0.0)):
        a, b = torch.full((70, k), math.nan, device="cuda"), torch.full((k, 66), math.nan, device="cuda")
        c = torch.randn(70, 66, device="cuda")
        assert torch.equal(gemmsmith.gemm(a, b, c, alpha=alpha, beta=2.0, kernel=kernel), 2 * c)


@pytest.mark.parametrize("kernel", [SIX, THREE, IN_REGISTERS])
def test_infinities_nan_and_the_ends_of_the_range_are_those_of_fp32(torch: Any, kernel: str) -> None:
    """Where a row of A and a column of B have only finite numbers, what stands elsewhere changes nothing."""
    a, b = torch.randn(200, 136, device="cuda"), torch.randn(136, 190, device="cuda")
    a[3, 5], a[7, 9], a[11, 0], a[12, 1] = math.inf, math.nan, 3e38, -math.inf
    b[5, 17], b[0, 19], b[1, 23] = 0.0, 3e38, 0.0
    a[20], b[:, 30] = a[20] * 2.0**-140, b[:, 30] * 2.0**-120
    got = gemmsmith.gemm(a, b, kernel=kernel)
    exact = a.double() @ b.double()
    assert torch.equal(got.isnan(), exact.isnan())
    large = exact.abs() > 3.41e38
    assert torch.equal(got.isinf(), large & ~exact.isnan())
    same = exact.isinf() & ~exact.isnan()
    assert torch.equal(got[same].double(), exact[same])
    finite = ~(exact.isnan() | large)
    scale = a.double().abs().nan_to_num(0, 0, 0) @ b.double().abs()
    wrong = (got.double() - exact).abs()[finite] - 137 * 2.0**-149
    assert float((wrong / (U * scale[finite])).max()) < 8


def test_the_data_decide_at_every_launch(torch: Any) -> None:
    a, b = torch.randn(300, 512, device="cuda"), torch.randn(512, 260, device="cuda")
    wide = torch.exp(torch.randn(300, 512, device="cuda") * 12)
    plan = gemmsmith.plan(a, b, kernel=THREE)
    plan()
    assert plan.method() == "fp16x3"
    plan(a=wide)
    assert plan.method() == "bf16x6"
    assert torch.equal(plan(a=wide), gemmsmith.gemm(wide, b, kernel=SIX))
    plan(a=a)
    assert plan.method() == "fp16x3"

    live = a.clone()
    captured = gemmsmith.plan(live, b, kernel=THREE)
    out = captured()
    graph = torch.cuda.CUDAGraph()
    with capture(graph):
        captured()
    for data, method in ((wide, "bf16x6"), (a, "fp16x3"), (wide, "bf16x6")):
        live.copy_(data)
        out.fill_(math.nan)
        graph.replay()
        torch.cuda.synchronize()
        assert captured.method() == method
        assert torch.equal(out, gemmsmith.gemm(data, b, kernel=SIX if method == "bf16x6" else THREE))


@pytest.mark.parametrize("kernel", [SIX, THREE, IN_REGISTERS])
def test_the_same_bits_every_time_beside_a_busy_stream(torch: Any, kernel: str) -> None:
    a, b = torch.randn(1000, 900, device="cuda"), torch.randn(900, 1100, device="cuda")
    first = gemmsmith.gemm(a, b, kernel=kernel)
    other = torch.cuda.Stream()
    noise = torch.randn(2048, 2048, device="cuda")
    for _ in range(30):
        with torch.cuda.stream(other):
            torch.mm(noise, noise)
        x, y = a.clone(), b.clone()
        got = gemmsmith.gemm(x, y, kernel=kernel)
        del x, y  # released before the kernel has run
        assert torch.equal(got, first)
    torch.cuda.synchronize()


@pytest.mark.parametrize("kernel", [SIX, THREE, IN_REGISTERS])
@pytest.mark.parametrize("k", [16, 100, 1024, 4096])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_no_less_accurate_than_cublas(torch: Any, kernel: str, k: int, kind: str) -> None:
    # For fewer outputs cuBLAS divides K, which rounds less.
    a, b = torch.empty(1024, k, device="cuda"), torch.empty(k, 1024, device="cuda")
    for x in (a, b):
        x.normal_() if kind == "normal" else x.uniform_()
    ours, theirs = error(gemmsmith.gemm(a, b, kernel=kernel), a, b), error(a @ b, a, b)
    assert ours <= max(theirs, 4.0), (ours, theirs)
