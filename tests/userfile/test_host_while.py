"""Values that loops of host code compute before a launch: its statements are carried out in order."""

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
    ("statements", "side"),
    [
        ("int rows = 0; while (rows < M) { rows += 32; side = rows / 32; }", 4),
        ("for (int n = N; n > 32; n -= 32) { side++; }", 7),
        ("for (int i = 0; i < 8; ++i) { if (side * 32 >= N) break; side += 3; }", 7),
        ("for (int i = 0; i * 32 < N; ++i) { if (i % 2) continue; side += i; }", 13),
        ("for (int i = 0; i < 8; ++i) { if (ready()) break; side += 3; }", None),
        ("int blocks = 1; while (blocks * 32 < N) blocks *= 2; side = blocks; blocks = 1;", 8),
        ("int blocks = 2; for (int i = 0; i < 2; ++i) blocks *= 2; int each = (N + blocks - 1) / blocks;"
         " blocks = 0; side = each / 5;", 5),
        ("int tall = 1; do { tall += 2; } while (tall * 32 < N); if (tall > M) { side = 1; } else side = tall;", 7),
        ("int tall = 1; while (tall < 4) tall *= 2; if (ready()) tall = 9; side = tall;", None),
        ("int tall = 1; while (tall < 4) tall *= 2; prepare(&tall); side = tall;", None),
        ("int tall = 1; while (tall > 0) tall += 0; side = tall;", None),
    ],
)  # fmt: skip
def test_several_statements_in_order(statements: str, side: int | None, tmp_path: Path) -> None:
    """What is not understood, as a call that may change a variable, leaves it without a value."""
    file = tmp_path / "k.cu"
    file.write_text(KERNEL.replace("LOOP", statements))
    launch = user_kernel(file, UserOptions()).geometry
    assert bool(launch.misread) == (side is None)  # type: ignore[attr-defined]
    if side is not None:
        assert launch(Problem(100, 200, 64), Config()).grid == (side * side, 1, 1)


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
