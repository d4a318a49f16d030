"""gemv on a GPU: random problems between NaN in every layout and configuration, the same bits every time."""

from __future__ import annotations

from typing import Any

import pytest

import gemmsmith
from gemmsmith.choose.vectors import configurations
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import gpu_available

from test_simt_best_on_gpu import U, error, stored, stored_aligned  # isort: skip

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs a GPU")]

KERNEL = "gemv"
LAYOUTS = ("NN", "NT", "TN", "TT")


@pytest.fixture(name="torch")
def _torch() -> Any:
    found = pytest.importorskip("torch")
    found.manual_seed(0)
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("swap", [False, True], ids=["columns", "rows"])
def test_random_problems_between_nans(torch: Any, layout: str, swap: bool) -> None:
    """Of the configurations of the choice some with one, two, three and eight vectors; rows start on 16, 8 and 4 bytes.
    A kernel takes a second to compile."""
    number = LAYOUTS.index(layout) + 4 * swap
    dice = torch.Generator().manual_seed(number)
    for i in range(3):
        vectors = (1, 2, 3, 8)[(number + i) % 4]
        shape = (vectors, 5000, 5000) if swap else (5000, vectors, 5000)
        found = list(configurations(Problem(*shape, trans_a=layout[0] == "T", trans_b=layout[1] == "T")))
        config = dict(found[(7 * number + 3 * i) % len(found)])
        make, more = ((stored_aligned, 4), (stored_aligned, 2), (stored, 3))[i]
        for _ in range(4):
            longer, k = (int(x) for x in torch.randint(1, 3000, (2,), generator=dice))
            m, n = (vectors, longer) if swap else (longer, vectors)
            a = make(torch, m, k, layout[0] == "T", more)
            b = make(torch, k, n, layout[1] == "T", more)
            out = torch.full((m + 2, n + 8), float("nan"), device="cuda")
            target = out[1:-1, 4:-4]
            gemmsmith.gemm(a, b, kernel=KERNEL, config=config, out=target)
            assert error(target, a, b) < 16, (m, n, k, config)
            assert int(out.isnan().sum()) == (m + 2) * (n + 8) - m * n, "nothing was written around it"
            assert torch.equal(gemmsmith.gemm(a, b, kernel=KERNEL, config=config), target)


@pytest.mark.parametrize("shape", [(7899, 1, 13715), (4, 1304, 3104), (691, 8, 12938)], ids=str)
def test_the_same_bits_every_time(torch: Any, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
    config = dict(list(configurations(Problem(m, n, k)))[3])  # a cluster of eight
    assert config["CLUSTER_K"] == 8
    first = gemmsmith.gemm(a, b, kernel=KERNEL, config=config)
    assert error(first, a, b) < 16
    for _ in range(50):
        assert torch.equal(gemmsmith.gemm(a, b, kernel=KERNEL, config=config), first)


def test_a_batch_with_an_epilogue_whose_k_a_cluster_divides(torch: Any) -> None:
    a, b = torch.randn(3, 700, 3001, device="cuda"), torch.randn(3, 3001, 5, device="cuda")
    bias, c = torch.randn(5, device="cuda"), torch.randn(3, 700, 5, device="cuda")
    config = {"BM": 32, "BN": 8, "CLUSTER_K": 4}
    got = gemmsmith.gemm(a, b, c, alpha=0.7, beta=-1.5, kernel=KERNEL, config=config, bias=bias, activation="relu")
    expected = torch.relu(0.7 * (a.double() @ b.double()) - 1.5 * c.double() + bias.double())
    scale = a.double().abs() @ b.double().abs() + 1.5 * c.double().abs() + bias.double().abs()
    assert float(((got.double() - expected).abs() / (U * scale)).max()) < 16


def test_more_than_2_to_the_31_elements(torch: Any) -> None:
    """The last rows of a matrix of 8.6 GB, along k and across."""
    k = 2**16
    rows = 2**31 // k + 40
    a, b = torch.zeros(rows, k, device="cuda"), torch.randn(k, 2, device="cuda")
    a[-3:].normal_()
    got = gemmsmith.gemm(a, b, kernel=KERNEL, config={"BM": 32, "BN": 2})
    assert error(got[-3:], a[-3:], b) < 16
    assert not got[:-3].any()
    tall = a.view(k, rows).mT
    got = gemmsmith.gemm(tall, b, kernel=KERNEL, config={"BM": 64, "BN": 2, "ROWS": 8})
    assert error(got[-64:], tall[-64:], b) < 16
