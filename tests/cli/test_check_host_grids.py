"""What host code's grid tells: sizes from which blocks share K, and a last tile that the kernel does not count."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

SHARED_K = """
__global__ void adds(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.x * 16 + threadIdx.y, col = blockIdx.y * 16 + threadIdx.x;
    float sum = 0;
    for (int k = blockIdx.z; k < K; k += gridDim.z) sum += row < M && col < N ? A[row * K + k] * B[k * N + col] : 0.f;
    if (row < M && col < N) ADD;
}
void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    int z = K >= 1536 ? 4 : 1;
    adds<<<dim3((M + 15) / 16, (N + 15) / 16, z), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(
    ("add", "status"), [("atomicAdd(&C[row * N + col], sum)", "right"), ("C[row * N + col] += sum", "wrong")]
)
def test_a_k_from_which_host_code_divides_it_is_tried(
    add: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = check(tmp_path, SHARED_K.replace("ADD", add), capsys, "--cures", "0")
    assert found["status"] == status
    assert any(trial["label"] == "K = 1536, where the grid changes" for trial in found["trials"])


TILES = """
__global__ void walks(const float* A, const float* B, float* C, int M, int N, int K) {
    int down = DOWN, across = (N + 31) / 32;
    for (int tile = blockIdx.x; tile < down * across; tile += gridDim.x) {
        int row = tile / across * 32 + threadIdx.y, col = tile % across * 32 + threadIdx.x;
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += row < M && col < N ? A[row * K + k] * B[k * N + col] : 0.f;
        if (row < M && col < N) C[row * N + col] = sum;
    }
}
void launch(const float* A, const float* B, float* C, int M, int N, int K, int sms) {
    int tiles = (HOST) * ((N + 31) / 32);
    walks<<<tiles < sms ? tiles : sms, dim3(32, 32)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(
    ("down", "host", "status"),
    [
        ("(M + 31) / 32", "(M + 31) / 32", "right"),
        ("M / 32", "(M + 31) / 32", "wrong"),
        ("M / 32", "M / 32", "whole_tiles"),  # host code has no blocks for more
    ],
)
def test_rows_of_tiles_that_the_grid_has_and_the_kernel_does_not_count(
    down: str, host: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = check(tmp_path, TILES.replace("DOWN", down).replace("HOST", host), capsys, "--cures", "0")
    assert found["status"] == status


HALVED = """
__global__ void halved(const float* A, const float* B, float* C, int N, int K) {
    extern __shared__ float part[];
    int row = blockIdx.x, col = blockIdx.y, t = threadIdx.x;
    float sum = 0;
    for (int k = t; k < K; k += blockDim.x) sum += A[row * K + k] * B[k * N + col];
    part[t] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0) C[row * N + col] = part[0];
}
void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    int threads = THREADS;
    halved<<<dim3(M, N), threads, threads * sizeof(float)>>>(A, B, C, N, K);
}
"""


@pytest.mark.parametrize(("threads", "status"), [("64", "right"), ("(K + 31) / 32 * 32", "wrong")])
def test_an_extent_of_the_grid_alone_is_no_other_one_as_well(
    threads: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M = K = 64 gives 64 threads, which halving is right for: K was taken for M, too."""
    _, found = check(
        tmp_path, HALVED.replace("THREADS", threads), capsys, "--cures", "0", "--trial", "M, N and K all different"
    )
    assert found["status"] == status
