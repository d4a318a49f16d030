"""Mistakes on paths that the usual shapes and scalars do not reach."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

# A tile of 16 x 16 whose last barrier of an iteration is left out for some K.
RACY_ABOVE = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][17], b[16][17];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0.f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        a[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.f;
        b[y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0.f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += a[y][k] * b[k][x];
        if (K <= LIMIT || k0 + 16 >= K) __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    gemm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
# One output for each thread; beta arrives as a float.
BF16_SCALARS = """
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;
__global__ void gemm(const bf16* A, const bf16* B, bf16* C, int M, int N, int K, float alpha, float beta) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += __bfloat162float(A[row * K + k]) * __bfloat162float(B[k * N + col]);
    const float old = __bfloat162float(C[row * N + col]);
    C[row * N + col] = __float2bfloat16(alpha * sum + BETA * old);
}
void run(const bf16* A, const bf16* B, bf16* C, int M, int N, int K, float alpha, float beta) {
    gemm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K, alpha, beta);
}
"""


def test_a_race_beyond_the_k_where_the_code_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, RACY_ABOVE.replace("LIMIT", "300"), capsys)
    assert (code, found["status"]) == (1, "racy")
    failed = next(trial for trial in found["trials"] if not trial["ok"])
    assert failed["problem"]["k"] == 301
    assert "check" in failed["repeat"]  # run looks for no races
    assert "--k 301" in failed["repeat"]


def test_a_scalar_that_is_rounded_to_16_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    narrow = "__bfloat162float(__float2bfloat16(beta))"
    for beta, code in ((narrow, 1), ("beta", 0)):
        found = check(tmp_path, BF16_SCALARS.replace("BETA", beta), capsys, "--trial", "alpha and beta")
        assert found[0] == code


def test_what_is_left_of_a_vector_in_the_last_of_several_tiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four columns for each thread; the last of three is not stored beyond the second tile."""
    source = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    const int row = blockIdx.y * 8 + threadIdx.y, col = (blockIdx.x * 8 + threadIdx.x) * 4;
    for (int j = 0; j < 4 && row < M; ++j) {
        if (col + j >= N - (N - col == 3 && blockIdx.x > 1)) break;
        float sum = 0.f;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col + j];
        C[row * N + col + j] = sum;
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    gemm<<<dim3((N + 31) / 32, (M + 7) / 8), dim3(8, 8)>>>(A, B, C, M, N, K);
}
"""
    code, found = check(tmp_path, source, capsys)
    assert (code, found["status"]) == (1, "wrong")


def test_an_array_of_pointers_has_one_for_each_product(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = """
__global__ void gemm(int m, int n, int k, const float* const* As, const float* const* Bs, float* const* Cs) {
    const float *A = As[blockIdx.z], *B = Bs[WHICH];
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0.f;
    for (int q = 0; q < k; ++q) sum += A[row * k + q] * B[q * n + col];
    Cs[blockIdx.z][row * n + col] = sum;
}
void run(int m, int n, int k, const float* const* As, const float* const* Bs, float* const* Cs, int count) {
    gemm<<<dim3((n + 7) / 8, (m + 7) / 8, count), dim3(8, 8)>>>(m, n, k, As, Bs, Cs);
}
"""
    for which, code in (("blockIdx.z", 0), ("0", 1)):
        assert check(tmp_path, source.replace("WHICH", which), capsys, "--trial", "a batch of three")[0] == code


def test_rows_beyond_a_packed_index_of_a_flat_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Blocks that are no rectangles of C cannot be run alone: all of a long product is."""
    source = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    const int t = blockIdx.x * 256 + threadIdx.x, row = t / N, col = t % N;
    if (row >= M) return;
    const unsigned place = (unsigned)row << 18 | (unsigned)col;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[(size_t)(place >> 18) * K + k] * B[(size_t)k * N + (place & 0x3ffff)];
    C[(size_t)row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    gemm<<<(M * N + 255) / 256, 256>>>(A, B, C, M, N, K);
}
"""
    code, found = check(tmp_path, source, capsys)
    assert (code, found["status"]) == (1, "wrong")
    assert next(trial for trial in found["trials"] if not trial["ok"])["label"] == "70,000 rows"


def test_an_old_c_with_another_leading_dimension(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K, int ldc, float alpha, float beta) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    const float old = beta == 0.f ? 0.f : beta * C[row * (row < 48 ? ldc : N) + col];
    C[row * ldc + col] = alpha * sum + old;
}
void run(const float* A, const float* B, float* C, int M, int N, int K, int ldc, float alpha, float beta) {
    gemm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K, ldc, alpha, beta);
}
"""
    code, found = check(tmp_path, source, capsys)
    assert (code, found["status"]) == (1, "wrong")


def test_a_race_between_two_tiles_of_a_block_in_a_large_grid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only more than 60 tiles give a block two of them."""
    source = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][16];
    const int x = threadIdx.x, y = threadIdx.y, across = (N + 15) / 16, tiles = across * ((M + 15) / 16);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int row = tile / across * 16 + y, col = tile % across * 16 + x;
        float sum = 0.f;
        for (int k0 = 0; k0 < K; k0 += 16) {
            if (k0) __syncthreads();
            a[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.f;
            __syncthreads();
            for (int k = 0; k < 16 && k0 + k < K && col < N; ++k) sum += a[y ^ 1][k] * B[(k0 + k) * N + col];
        }
        const int other = tile / across * 16 + (y ^ 1);
        if (other < M && col < N) C[other * N + col] = sum;
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    const int tiles = ((N + 15) / 16) * ((M + 15) / 16);
    gemm<<<tiles < 60 ? tiles : 60, dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
    code, found = check(tmp_path, source, capsys)
    assert (code, found["status"]) == (1, "racy")


def test_columns_that_are_rounded_down_to_no_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One short of a tile has no blocks; one short of two has too few."""
    source = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    const int row = blockIdx.y * 4 + threadIdx.y, col = blockIdx.x * 64 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    gemm<<<dim3(N / 64, (M + 3) / 4), dim3(64, 4)>>>(A, B, C, M, N, K);
}
"""
    code, found = check(tmp_path, source, capsys)
    assert (code, found["status"]) == (0, "whole_tiles")
    assert found["multiples"] == {"m": 1, "n": 64, "k": 1}
