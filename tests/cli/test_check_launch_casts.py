"""gemmsmith check on launches that cast what they pass, constants with a size's name, and odd multiples."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

CAST = """
constexpr unsigned TB = 16;
__global__ void scores(const float* Q, const float* K, float* S, unsigned n, unsigned d, float scale) {
    const float *q = Q + (size_t)blockIdx.z * n * d, *k = K + (size_t)blockIdx.z * n * d;
    unsigned i = blockIdx.y * TB + threadIdx.y, j = blockIdx.x * TB + threadIdx.x;
    if (i >= n || j >= n) return;
    float sum = 0.0f;
    for (unsigned e = 0; e < d; ++e) sum += q[i * d + e] * k[j * d + e];
    S[(size_t)blockIdx.z * n * n + i * n + j] = scale * sum;
}
void run(const float* Q, const float* K, float* S, int batch, int n, int d, float scale) {
    dim3 grid((n + TB - 1) / TB, (n + TB - 1) / TB, batch);
    scores<<<grid, dim3(TB, TB)>>>(Q, K, S, CASTS, scale);
}
"""


@pytest.mark.parametrize("casts", [
    "(unsigned)n, (unsigned)d", "static_cast<unsigned int>(n), unsigned(d)", "(uint32_t)(n), (int)d",
])  # fmt: skip
def test_what_is_cast_is_passed(casts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, CAST.replace("CASTS", casts), capsys)
    assert (code, found["status"]) == (0, "right"), found


SCOPED = """
namespace cfg { constexpr int M = 16, N = 16, K = 16, All = M * K / 16; }
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * cfg::M + threadIdx.y, col = blockIdx.x * cfg::N + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += cfg::All)
        for (int i = 0; i < cfg::K; ++i) sum += A[row * K + k + i] * B[(k + i) * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    mm<<<dim3(N / cfg::N, M / cfg::M), dim3(cfg::N, cfg::M)>>>(A, B, C, M, N, K);
}
"""


def test_constants_of_a_namespace_are_no_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, SCOPED, capsys)
    assert (code, found["status"], found["multiples"]) == (0, "whole_tiles", {"m": 16, "n": 16, "k": 16}), found


TENS = """
#include <cassert>
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    __shared__ float a[16][DEPTH], b[DEPTH][16];
    float sum = 0.0f;
    for (int k = 0; k < K; k += 10) {
        if (threadIdx.x < 10) a[threadIdx.y][threadIdx.x] = A[row * K + k + threadIdx.x];
        if (threadIdx.y < 10) b[threadIdx.y][threadIdx.x] = B[(k + threadIdx.y) * N + col];
        __syncthreads();
        for (int i = 0; i < 10; ++i) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
        __syncthreads();
    }
    C[row * N + col] = sum;
}
constexpr int STEP = 10;
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    assert(M % 16 == 0 && N % 16 == 0 && K % STEP == 0);
    mm<<<dim3(N / 16, M / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(("depth", "is_right"), [("10", True), ("9", False)])
def test_multiples_that_are_no_powers_of_two(
    depth: str, is_right: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, TENS.replace("DEPTH", depth), capsys)
    assert isinstance(found, dict), found
    assert (code == 0, found["status"] == "wrong") == (is_right, not is_right), found


SMALL = """
#include <cassert>
#define MOST 32
__global__ void mm(const float* A, const float* B, float* C, int m, int n, int k) {
    float sums[MOST] = {};
    int row = threadIdx.x;
    if (row >= m) return;
    for (int p = 0; p < k; ++p)
        for (int j = 0; j < n; ++j) sums[j] += A[row * k + p] * B[p * n + j];
    for (int j = 0; j < n; ++j) C[row * n + j] = sums[j];
}
void run(const float* A, const float* B, float* C, int m, int n, int k) {
    assert(m <= MOST && n <= MOST && k <= MOST);
    mm<<<1, MOST>>>(A, B, C, m, n, k);
}
"""


def test_sizes_that_are_all_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, SMALL, capsys)
    assert isinstance(found, dict), found
    assert (code, found["status"]) == (0, "right"), found
