"""A grid that host code computes from M alone is known for a single row as well: one block, as for a whole tile."""

from __future__ import annotations

from pathlib import Path

from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

KERNEL = """
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
__global__ void forward(float* C, const float* A, const float* B, int K, int N) {
    A += 128 * blockIdx.x * K;
    C[128 * blockIdx.x * N + 128 * blockIdx.y] = A[0] * B[0];
}
void run(float* C, const float* A, const float* B, int M, int K, int N) {
    dim3 grid(CEIL_DIV(M, 128), CEIL_DIV(N, 128)), block(16, 16);
    forward<<<grid, block>>>(C, A, B, K, N);
}
"""


def test_one_row_has_the_grid_of_its_host_code(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(KERNEL)
    spec = user_kernel(path, UserOptions())
    for m, blocks in ((1, 1), (2, 1), (128, 1), (129, 2)):
        problem = Problem(m, 256, 64)
        assert spec.geometry.sources(problem) == ("launch site", "launch site"), m  # type: ignore[attr-defined]
        assert spec.geometry(problem, spec.config()).grid == (blocks, 2, 1)
