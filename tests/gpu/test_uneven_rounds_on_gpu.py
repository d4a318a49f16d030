"""Transposed tiles whose last boxes of outputs are fewer, on a GPU: right at edges, in several types, the same bits
every time, and nothing written around C."""

from __future__ import annotations

import math

import pytest

import gemmsmith
from gemmsmith.run.cuda import gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs a GPU")]

DEEP = 4160  # no stage is given up for outputs
TILES = {
    "256x152": {"BM": 256, "BN": 152, "STAGES": 4, "CONSUMERS": 2, "CLUSTER_M": 1, "CLUSTER_N": 2},
    "256x136": {"BM": 256, "BN": 136, "STAGES": 4, "CONSUMERS": 2, "CLUSTER_M": 1, "CLUSTER_N": 1},
    "64x152": {"BM": 64, "BN": 152, "STAGES": 8, "CONSUMERS": 1, "CLUSTER_M": 4, "CLUSTER_N": 1},
}


@pytest.mark.parametrize("out", ["bfloat16", "float32"])
@pytest.mark.parametrize("tile", TILES)
def test_outputs_are_right_and_stay_inside(tile: str, out: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    config = TILES[tile] | {"SWAP": 1, "GROUP": 4}
    for m, n in ((1, 64), (151, 264), (700, 1000), (2000, 3000)):
        a = torch.randn(m, DEEP, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(n, DEEP, device="cuda", dtype=torch.bfloat16).mT
        around = torch.full((m + 2, n + 16), math.nan, device="cuda", dtype=getattr(torch, out))
        target = around[1:-1, 8:-8]
        gemmsmith.gemm(a, b, kernel="wgmma_cluster", config=config, out=target, out_dtype=out)
        exact, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()
        rounding = 2.0**-8 if out == "bfloat16" else 2.0**-24
        assert float(((target.double() - exact).abs() - rounding * exact.abs()).div(scale).max()) < 2.0**-17, (m, n)
        assert int(around.isnan().sum()) == (m + 2) * (n + 16) - m * n, "nothing was written around it"
        first = target.clone()
        for _ in range(20):
            target.fill_(math.nan)
            gemmsmith.gemm(a, b, kernel="wgmma_cluster", config=config, out=target, out_dtype=out)
            assert torch.equal(target, first), (m, n)
