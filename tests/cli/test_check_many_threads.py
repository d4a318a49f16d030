"""Launches whose block or grid grows with M·N: usual sizes have more threads than a GPU allows, or take minutes."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

ONE_BLOCK = """
__global__ void multiply(const int* x, const int* y, int* z, int side) {
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= side || c >= side) return;
    int total = 0;
    for (int i = 0; i < side; ++i) total += x[r * side + i] * y[INDEX];
    z[r * side + c] = total;
}
int main() {
    const int side = 5;
    int *x, *y, *z;
    dim3 threads(side, side), blocks(1, 1);
    multiply<<<blocks, threads>>>(x, y, z, side);
}
"""
FAR_TOO_MANY = """
__global__ void multiply(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row < M && col < N) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 grid((M * N + 7) / 8, (M * N + 7) / 8), block(8, 8);
    multiply<<<grid, block>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(("index", "status"), [("i * side + c", "right"), ("i * side + r", "wrong")])
def test_a_block_with_a_thread_for_each_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], index: str, status: str
) -> None:
    _, found = check(tmp_path, ONE_BLOCK.replace("INDEX", index), capsys, "--trial", "random data")
    assert found["status"] == status
    assert found["launch"]["block"] == [16, 16, 1]


def test_a_grid_of_far_too_many_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = check(tmp_path, FAR_TOO_MANY, capsys, *QUICK)
    assert found["status"] == "right"
    assert found["launch"]["grid"] == [32, 32, 1]
