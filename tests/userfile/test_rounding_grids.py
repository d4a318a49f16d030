"""Grids that host code rounds by a lambda, a function of its library, a macro with parentheses: none is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.kernel.config import Config
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel

KERNEL = """
#define UP(n, by) (((n) + (by) - 1) / (by))
#define NEAREST(n, by) (((n) + (by) / 2) / (by))
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    const int tile = 16;
    auto nearest = [](int n) { return (n + 8) / 16; };
    auto up = [=](int n, int by) -> int { return (n + by - 1) / by; };
    mine<<<dim3(COLUMNS, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(
    ("columns", "up"),
    [
        ("nearest(N)", False),
        ("up(N, tile)", True),
        ("NEAREST(N, tile)", False),
        ("UP(N, tile)", True),
        ("lround(double(N) / tile)", False),
        ("lrint(N / 16.0)", False),
        ("(int)ceil(N / 16.0)", True),
        ("((int) -N + 1) / -tile + 1", True),
    ],
)
def test_how_a_grid_is_rounded(columns: str, up: bool, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(KERNEL.replace("COLUMNS", columns), encoding="utf-8")
    spec = user_kernel(tmp_path / "k.cu", UserOptions())
    grids = [spec.geometry(Problem(16, n, 8), Config()).grid[0] for n in (64, 65, 75)]
    assert grids == ([4, 5, 5] if up else [4, 4, 5])
