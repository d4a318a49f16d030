"""Launches with grid and block exchanged: wrong as launched, with the cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.userfile.launches.user_launch import UserLaunch

TILED = """
template <int T>
__global__ void tiled(int M, int N, int K, const float* A, const float* B, float* C) {
    __shared__ float left[T][T], right[T][T];
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float sum = 0.f;
    for (int start = 0; start < K; start += T) {
        int k = start + threadIdx.x, l = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < M && k < K ? A[row * K + k] : 0.f;
        right[threadIdx.y][threadIdx.x] = l < K && col < N ? B[l * N + col] : 0.f;
        __syncthreads();
        for (int i = 0; i < T; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
void multiply(int M, int N, int K, const float* A, const float* B, float* C) {
    dim3 blocks((N + 7) / 8, (M + 7) / 8);
    dim3 threads(8, 8);
    tiled<8><<<threads, blocks>>>(M, N, K, A, B, C);
}
"""
PLAIN = """
__global__ void plain(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
"""
ANY_SIZE = (
    PLAIN
    + """
void multiply(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 blocks((N + 7) / 8, (M + 7) / 8), threads(8, 8);
    plain<<<threads, blocks>>>(A, B, C, M, N, K);
}
"""
)
OWN_SIZES = (
    PLAIN
    + """
int main() {
    const int M = 64, N = 96, K = 32;
    float *A, *B, *C;
    cudaMalloc(&A, 4 * M * K); cudaMalloc(&B, 4 * K * N); cudaMalloc(&C, 4 * M * N);
    dim3 blocks((N + 7) / 8, (M + 7) / 8), threads(8, 8);
    plain<<<threads, blocks>>>(A, B, C, M, N, K);
}
"""
)


def test_tiles_of_a_fixed_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ("--m", "16", "--n", "24", "--k", "8", "--cures", "1")
    code, found = check(tmp_path, TILED, capsys, *small)
    assert (code, found["status"]) == (1, "wrong"), found
    assert found["launch"]["grid"] == [8, 8, 1]
    assert "the launch in line 20 has grid and block swapped" in str(found["causes"])


def test_blocks_that_no_gpu_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such a kernel is right for small matrices, and its launch fails for others."""
    code, found = check(tmp_path, ANY_SIZE, capsys)
    assert (code, found["status"]) == (1, "wrong"), found
    (reason,) = found["trials"][-1]["reasons"]
    assert "k.cu:12 has grid and block swapped: blocks of 4,096 threads, where a GPU allows 1,024" in reason


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (ANY_SIZE, "k.cu:12"),
        (OWN_SIZES, ""),  # small matrices of host code's own, which have such a block
        (OWN_SIZES.replace("M = 64, N = 96", "M = 640, N = 960"), "k.cu:15"),
        (ANY_SIZE.replace("<<<threads, blocks>>>", "<<<blocks, threads>>>"), ""),
        (ANY_SIZE.replace("<<<threads, blocks>>>", "<<<1, dim3(N, M)>>>"), ""),  # one block for all of C
        (ANY_SIZE.replace("<<<threads, blocks>>>", "<<<8, dim3(N, M)>>>"), ""),  # one block for each of eight products
    ],
)
def test_which_launches_are_exchanged(source: str, place: str, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(source, encoding="utf-8")
    launch = user_kernel(tmp_path / "k.cu", UserOptions()).geometry
    assert isinstance(launch, UserLaunch)
    assert launch.exchanged == place
