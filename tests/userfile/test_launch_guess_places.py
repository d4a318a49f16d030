"""A kernel whose threads number the elements of C says its own launch."""

from __future__ import annotations

import pytest

from gemmsmith.kernel.geometry import Dim3
from gemmsmith.kernel.signature import Signature
from gemmsmith.userfile.launches.launch_guess import LaunchGuess

ROW, COL = "int row = blockIdx.y * blockDim.y + threadIdx.y;", "int col = threadIdx.x + (blockDim.x * blockIdx.x);"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (ROW + COL + "C[row * N + col] = 0;", True),
        ("int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;", True),
        (ROW, False),
        (ROW + COL.replace("blockIdx.x", "blockIdx.y"), False),
        (ROW + COL.replace("threadIdx.x +", "2 * threadIdx.x +"), False),
        (ROW + COL + "for (int k = blockIdx.z; k < K; ++k) ;", False),
        (ROW + COL + "As[threadIdx.y][threadIdx.x] = 0;", False),
        (ROW + COL + "extern __shared__ float s[];", False),
        (ROW + COL + "for (; row < M; row += gridDim.y * blockDim.y) ;", False),
    ],
)
def test_one_element_a_thread(body: str, expected: bool) -> None:
    guess = LaunchGuess(Signature("mine", ()), body, body, "", {})
    assert guess.one_element_a_thread is expected


@pytest.mark.parametrize(
    ("threads", "col", "block"),
    [
        ({"TM": 8, "TN": 4}, "threadIdx.x * TN", (16, 16, 1)),
        ({"TM": 8}, "threadIdx.x", (64, 16, 1)),
        ({"TM": 8, "TN": 8}, "threadIdx.x", (64, 16, 1)),  # the constant of another kernel
        ({}, "threadIdx.x", (32, 32, 1)),
    ],
    ids=["tile", "column", "column beside tiles", "neither"],
)
def test_a_thread_may_compute_one_column(threads: dict[str, int], col: str, block: Dim3) -> None:
    body = f"int row = blockIdx.y * BM + threadIdx.y * TM, col = blockIdx.x * BN + {col};"
    guess = LaunchGuess(Signature("mine", ()), body, body, "", {"BM": 128, "BN": 64, **threads})
    assert guess._block() == block
