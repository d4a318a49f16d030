"""gemmsmith check where another kernel reads what one writes: slices of a sum are no product; and pairs of columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

WRONG = """__global__ void naive(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K - 1; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
__global__ void same(const float* C, const float* R, int* bad, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && C[i] != R[i]) atomicAdd(bad, 1);
}
void run(float* a, float* b, float* c, float* r, int* bad, int M, int N, int K) {
    dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);
    naive<<<grid, block>>>(a, b, c, M, N, K);
    same<<<(M * N + 255) / 256, 256>>>(c, r, bad, M * N);
}
"""
SLICES = """__global__ void part(const float* A, const float* B, float* W, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = blockIdx.z; k < K; k += gridDim.z) sum += A[row * K + k] * B[k * N + col];
    W[(blockIdx.z * M + row) * N + col] = sum;
}
__global__ void finish(const float* W, float* C, const int* order, int n, int slices) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int s = 0; s < slices; ++s) sum += W[s * n + i];
    C[order[i]] = sum;
}
void run(float* a, float* b, float* w, float* c, int* order, int M, int N, int K) {
    dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16, 4);
    part<<<grid, block>>>(a, b, w, M, N, K);
    finish<<<(M * N + 255) / 256, 256>>>(w, c, order, M * N, 4);
}
"""


def test_a_wrong_product_that_another_kernel_compares_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.cu").write_text(WRONG, encoding="utf-8")
    assert run_command(["check", f"{tmp_path / 'mine.cu'}:naive", "--cures", "0"]) == 1
    assert "naive is wrong" in capsys.readouterr().out


def test_slices_that_a_kernel_adds_up_which_is_not_understood_are_no_product(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.cu").write_text(SLICES, encoding="utf-8")
    assert run_command(["check", f"{tmp_path / 'mine.cu'}:part", "--cures", "0"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "does not finish the product" in said
    assert "finish at mine.cu:18" in said


PAIRS = """#include <cuda_fp16.h>
__global__ void pairs(const half* A, const half* B, half* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, pair = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || pair >= N / 2) return;
    float x = 0.0f, y = 0.0f;
    for (int k = 0; k < K; ++k) {
        float2 b = __half22float2(((const half2*)B)[k * (N / 2) + pair]);
        float a = __half2float(A[row * K + k]);
        x += a * b.x;
        y += a * b.y;
    }
    ((half2*)C)[row * (N / 2) + pair] = __floats2half2_rn(x, y);
}
void run(half* a, half* b, half* c, int M, int N, int K) {
    pairs<<<dim3((N / 2 + 15) / 16, (M + 7) / 8), dim3(16, 8)>>>(a, b, c, M, N, K);
}
"""


def test_a_grid_that_counts_pairs_of_columns_asks_for_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Host code launches no thread for the last column of an odd number, so its guard is none on columns."""
    (tmp_path / "mine.cu").write_text(PAIRS, encoding="utf-8")
    assert run_command(["check", str(tmp_path / "mine.cu"), "--cures", "0"]) == 0
    assert "multiples of 2 in N" in " ".join(capsys.readouterr().out.split())
