"""A kernel with a race and a second fault: the change that cures the race is named, and what it leaves."""

from __future__ import annotations

from pathlib import Path

from faulty_kernel import Faulty, checked

# The stage is overwritten while others read it; and where K is no multiple of 16, the tile's end keeps old numbers.
TWO_FAULTS = """
#include <cuda_pipeline.h>
__global__ void two_stages(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float left[2][16][16], right[2][16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    auto fetch = [&](int stage, int k0) {
        if (row < M && k0 + x < K) __pipeline_memcpy_async(&left[stage][y][x], &A[row * K + k0 + x], 4);
        if (k0 + y < K && col < N) __pipeline_memcpy_async(&right[stage][y][x], &B[(k0 + y) * N + col], 4);
        __pipeline_commit();
    };
    float sum = 0;
    int now = 0;
    fetch(0, 0);
    for (int k0 = 16; k0 < K; k0 += 16) {
        fetch(1 - now, k0);
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += left[now][y][k] * right[now][k][x];
        now = 1 - now;
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += left[now][y][k] * right[now][k][x];
    if (row < M && col < N) C[row * N + col] = sum;
}
void run(float* A, float* B, float* C, int M, int N, int K) {
    two_stages<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def test_a_cured_race_is_named_beside_wrong_edges(tmp_path: Path) -> None:
    report = checked(Faulty("two_faults", TWO_FAULTS, "missing-barrier"), tmp_path, seconds=20.0)
    assert report.status == "racy"
    assert [cause.kind.partition("+")[0] for cause in report.causes] == ["missing-barrier"]
    assert "a second fault is left" in report.causes[0].sentence or "+" in report.causes[0].kind


# No barrier at the end of the loop; and, in deep products alone, a neighbour's zero is read without one.
TWO_RACES = """
__global__ void two_races(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float left[16][16], right[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        left[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0;
        right[y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += left[y][k] * right[k][x];
    }
    if (K > 128) {
        __syncthreads();
        left[y][x] = 0;
        sum += left[y ^ 1][x];
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
void run(float* A, float* B, float* C, int M, int N, int K) {
    two_races<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def test_a_cured_race_is_named_beside_another(tmp_path: Path) -> None:
    report = checked(Faulty("two_races", TWO_RACES, "missing-barrier"), tmp_path, seconds=20.0)
    assert report.status == "racy"
    assert [cause.kind for cause in report.causes] == ["missing-barrier"]
    assert len(report.causes[0].replacements) == 2, report.causes[0].sentence
