"""Values that a while loop of host code computes, followed where it changes one variable and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.kernel.config import Config
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel

KERNEL = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.x / ((N + 31) / 32) * 32 + threadIdx.y, col = blockIdx.x % ((N + 31) / 32) * 32 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    int side = 1;
    LOOP
    gemm<<<side * side, dim3(32, 32)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(
    ("loop", "side"),
    [
        ("while (side * 32 < M || side * 32 < N) side *= 2;", 8),
        ("while (side < (N + 31) / 32) { side <<= 1; }", 8),
        ("while (32 * side < N) ++side;", 7),
        ("while (32 * side < N) side = side + 2;", 7),
    ],
)
def test_a_loop_of_one_statement(loop: str, side: int, tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(KERNEL.replace("LOOP", loop))
    spec = user_kernel(file, UserOptions())
    assert spec.geometry(Problem(100, 200, 64), Config()).grid == (side * side, 1, 1)
    assert not spec.geometry.misread  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "loop",
    [
        "while (side * 32 < M) { side *= 2; prepare(&side); }",
        "while (ready(side)) side *= 2;",
        "while (side > 0) side += 0;",
    ],
)
def test_other_loops_are_not_understood(loop: str, tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(KERNEL.replace("LOOP", loop))
    assert user_kernel(file, UserOptions()).geometry.misread  # type: ignore[attr-defined]
