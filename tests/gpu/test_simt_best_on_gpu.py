"""simt_best on a GPU: random problems in every layout, tiles shared among blocks, the same bits every time."""

from __future__ import annotations

import math
from typing import Any

import pytest

import gemmsmith
from gemmsmith.choose.simt import BY_REGISTERS, candidates, configuration_for
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs a GPU")]

KERNEL = "simt_best"
U = 2.0**-24
H200 = 132


@pytest.fixture(name="torch")
def _torch() -> Any:
    found = pytest.importorskip("torch")
    found.manual_seed(0)
    return found


def stored(torch: Any, rows: int, cols: int, transposed: bool, pad: int) -> Any:
    """A matrix in a larger one full of NaN, row by row or column by column."""
    height, width = (cols, rows) if transposed else (rows, cols)
    around = torch.full((height + 2, width + pad), math.nan, device="cuda")
    inside = around[1:-1, pad // 2 : pad // 2 + width]
    inside.normal_()
    return inside.mT if transposed else inside


def stored_aligned(torch: Any, rows: int, cols: int, transposed: bool, floats: int = 4) -> Any:
    """The same, with rows that start on so many floats, and not on twice as many."""
    height, width = (cols, rows) if transposed else (rows, cols)
    pitch = width + 2 * floats + -width % floats
    around = torch.full((height + 2, pitch + (floats if pitch % (2 * floats) == 0 else 0)), math.nan, device="cuda")
    inside = around[1:-1, floats : floats + width]
    inside.normal_()
    return inside.mT if transposed else inside


def error(got: Any, a: Any, b: Any) -> float:
    """The component-wise one, in units of fp32's roundoff."""
    exact, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    return float(((got.double() - exact).abs() / (U * scale + 1e-300)).max())


@pytest.mark.parametrize("divided", ["", "shared", "cluster"])
@pytest.mark.parametrize("number", range(len(candidates())))
def test_random_problems_between_nans(torch: Any, number: int, divided: str) -> None:
    """K is not divided, divided among blocks that share tiles, and among the blocks of a cluster."""
    dice, tile = torch.Generator().manual_seed(number), candidates()[number]
    cluster = max(tile.clusters, default=1) if divided == "cluster" else 1
    config = dict(tile.config(tile.resident * H200 if divided == "shared" else 0, cluster=cluster))

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=dice))

    for i in range(12):
        m, n, k = (draw(1, 900) if draw(0, 4) else 64 * draw(1, 12) for _ in range(3))
        a = stored(torch, m, k, bool(i & 1), (0, 1, 6, 8)[draw(0, 4)])
        b = stored(torch, k, n, bool(i & 2), (0, 2, 5, 8)[draw(0, 4)])
        out = torch.full((m + 2, n + 8), math.nan, device="cuda")
        target = out[1:-1, 4:-4] if i % 3 else out[1:-1, 1 : 1 + n]
        gemmsmith.gemm(a, b, kernel=KERNEL, config=config, out=target)
        assert error(target, a, b) < 16, (m, n, k, i)
        turned = gemmsmith.gemm(a, b, kernel=KERNEL, config={**config, "TRANSPOSED_COPY": 1})
        assert torch.equal(turned, target), "the same numbers in the same order"
        assert int(out.isnan().sum()) == (m + 2) * (n + 8) - m * n, "nothing was written around it"


@pytest.mark.parametrize("number", range(1, len(candidates()), 4))
def test_transposed_in_registers(torch: Any, number: int) -> None:
    """Aligned K-major operands between NaN, in sizes of any kind: right, and the same bits every time."""
    dice, tile = torch.Generator().manual_seed(100 + number), candidates()[number]
    sharers = tile.resident * H200 if number % 3 == 1 else 0
    config = dict(tile.config(sharers, BY_REGISTERS, 1 if sharers else max(tile.clusters, default=1)))
    for i in range(9):
        m, n, k = (int(x) for x in torch.randint(1, 700, (3,), generator=dice))
        a, b = stored_aligned(torch, m, k, i % 3 == 2), stored_aligned(torch, k, n, i % 3 > 0)
        got = gemmsmith.gemm(a, b, kernel=KERNEL, config=config)
        assert error(got, a, b) < 16, (m, n, k, i)
        assert torch.equal(got, gemmsmith.gemm(a, b, kernel=KERNEL, config=config)), (m, n, k, i)


# Three times a power of two of columns, with 12 for each thread.
THREES = {
    "48": {"BM": 64, "BN": 48, "BK": 32, "WM": 64, "WN": 48, "TM": 8, "TN": 12, "TEAMS": 4, "STAGES": 3},
    "96": {"BM": 64, "BN": 96, "BK": 32, "WM": 64, "WN": 48, "TM": 8, "TN": 12, "TEAMS": 2, "STAGES": 2},
}


@pytest.mark.parametrize(
    ("width", "registers", "divided"),
    [
        ("48", True, {"SHARERS": H200}), ("48", False, {"CLUSTER_K": 2}), ("96", True, {}),
        ("96", False, {"SHARERS": H200}),
    ],
    ids=str,
)  # fmt: skip
def test_columns_of_three_times_a_power_of_two(torch: Any, width: str, registers: bool,
                                               divided: dict[str, int]) -> None:  # fmt: skip
    """With rows that start on 16, on 8 and on 4 bytes: right, and the same bits every time."""
    dice = torch.Generator().manual_seed(int(width))
    config = THREES[width] | divided | ({"TRANSPOSED_COPY": 2} if registers else {})
    for i in range(12):
        m, n, k = (int(x) for x in torch.randint(1, 700, (3,), generator=dice))
        n, floats = n % (2 * int(width)) + 1, (4, 2, 1)[i % 3]
        a, b = (stored_aligned(torch, *of, bool(i & bit), floats) for of, bit in (((m, k), 1), ((k, n), 2)))
        got = gemmsmith.gemm(a, b, kernel=KERNEL, config=config)
        assert error(got, a, b) < 16, (m, n, k, i)
        assert torch.equal(got, gemmsmith.gemm(a, b, kernel=KERNEL, config=config)), (m, n, k, i)


@pytest.mark.parametrize("number", [2, 9])
def test_rows_that_start_on_8_bytes(torch: Any, number: int) -> None:
    """K-major operands between NaN, transposed in registers: the bits of copies of 4 bytes."""
    dice, tile = torch.Generator().manual_seed(200 + number), candidates()[number]
    plain, config = dict(tile.config(0)), dict(tile.config(0, BY_REGISTERS))
    for i in range(9):
        m, n, k = (int(x) for x in torch.randint(1, 700, (3,), generator=dice))
        a, b = stored_aligned(torch, m, k, i % 3 == 2, 2), stored_aligned(torch, k, n, i % 3 > 0, 2)
        got = gemmsmith.gemm(a, b, kernel=KERNEL, config=config)
        assert error(got, a, b) < 16, (m, n, k, i)
        assert torch.equal(got, gemmsmith.gemm(a, b, kernel=KERNEL, config=plain)), (m, n, k, i)


@pytest.mark.parametrize("shape", [(1024, 1024, 1024), (16, 4096, 4096), (64, 4096, 4096), (128, 128, 16384),
                                   (2048, 2048, 512)], ids=str)  # fmt: skip
def test_the_same_bits_every_time(torch: Any, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    config = dict(configuration_for(Problem(m, n, k), H200))
    a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
    first = gemmsmith.gemm(a, b, kernel=KERNEL, config=config)
    assert error(first, a, b) < 16
    for _ in range(50):
        assert torch.equal(gemmsmith.gemm(a, b, kernel=KERNEL, config=config), first)


def test_a_batch_with_an_epilogue_whose_tiles_are_shared(torch: Any) -> None:
    a, b = torch.randn(3, 100, 3000, device="cuda"), torch.randn(3, 3000, 150, device="cuda")
    bias = torch.randn(150, device="cuda")
    config = dict(candidates()[3].config(candidates()[3].resident * H200))
    got = gemmsmith.gemm(a, b, kernel=KERNEL, config=config, bias=bias, activation="relu")
    expected = torch.relu(a.double() @ b.double() + bias.double())
    scale = a.double().abs() @ b.double().abs() + bias.double().abs()
    assert float(((got.double() - expected).abs() / (U * scale)).max()) < 16
