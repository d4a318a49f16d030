"""check on styles of public kernels that restrict the shapes: guards, vectors, asserts, grids for one problem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checking import check

# --- guards that keep threads inside, and what asks for multiples

LEAVES = """
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float as[16][16], bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    if (row >= M || col >= N) return;
    float s = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        as[ty][tx] = A[row * K + k0 + tx];
        bs[ty][tx] = B[(k0 + ty) * N + col];
        __syncthreads();
        for (int k = 0; k < 16; ++k) s += as[ty][k] * bs[k][tx];
        __syncthreads();
    }
    C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    k<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
VECTORS = """
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = (blockIdx.x * 16 + threadIdx.x) * 4;
    if (row >= M || col >= N) return;
    float4 s = {0, 0, 0, 0};
    for (int k = 0; k < K; ++k) {
        float a = A[row * K + k];
        float4 b = *(const float4*)(B + k * N + col);
        s.x += a * b.x; s.y += a * b.y; s.z += a * b.z; s.w += a * b.w;
    }
    *(float4*)(C + row * N + col) = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    k<<<dim3((N + 63) / 64, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
ASSERTS = """
#include <assert.h>
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    assert(M % 4 == 0 && K % 4 == 0);
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0;  // as long as K
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    k<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(("source", "status"), [(LEAVES, "whole_tiles"), (VECTORS, "aligned_rows"),
                                                (ASSERTS, "whole_tiles")])  # fmt: skip
def test_a_guard_that_handles_no_edge_restricts_and_does_not_make_wrong(
    source: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, source, capsys)
    assert (code, found["status"]) == (0, status)


def test_a_wrong_guard_beside_vectors_is_found_at_a_multiple_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, VECTORS.replace("col >= N", "col > N"), capsys)
    assert (code, found["status"]) == (1, "wrong")


def test_long_in_a_comment_promises_no_long_indices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, ASSERTS.replace("    assert(M % 4 == 0 && K % 4 == 0);", ""), capsys)
    assert (code, found["status"]) == (0, "right")
    assert any("beyond 2³¹ elements" in line for line in found["warnings"])


# --- guards, K = 0 and grids that fit what the kernel is made for

WARP_GUARD = """
#include <mma.h>
using namespace nvcuda;
__global__ void k(const half* A, const half* B, float* C, int M, int N, int K) {
    int warp = threadIdx.x / 32, row = blockIdx.y * 32 + warp / 2 * 16, col = blockIdx.x * 32 + warp % 2 * 16;
    if (row >= M || col >= N) return;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + row * N + col, c, N, wmma::mem_row_major);
}
void run(const half* A, const half* B, float* C, int M, int N, int K) {
    k<<<dim3((N + 31) / 32, (M + 31) / 32), 128>>>(A, B, C, M, N, K);
}
"""


def test_a_guard_of_whole_wmma_tiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wmma store writes 16 rows and columns, so no guard can be finer: multiples of 16 are what it is made for."""
    code, found = check(tmp_path, WARP_GUARD, capsys)
    assert (code, found["status"]) == (0, "whole_tiles"), found
    assert "multiples of 16 in M, 16 in N" in json.dumps(found)
    code, found = check(tmp_path, WARP_GUARD.replace("row >= M ||", "row > M ||"), capsys)
    assert "multiples of 32 in M, 16 in N" in json.dumps(found)


WHOLE_K_TILES = """
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][16], b[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x, tiles = K / 16;
    if (tiles == 0) return;
    float s = 0;
    for (int t = 0; t < tiles; ++t) {
        a[threadIdx.y][threadIdx.x] = A[row * K + t * 16 + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = B[(t * 16 + threadIdx.y) * N + col];
        __syncthreads();
        for (int k = 0; k < 16; ++k) s += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    k<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


QUEUE = """
__device__ unsigned next;
__global__ void reset() { next = 0; }
__global__ void __launch_bounds__(256) k(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][17], b[16][17];
    __shared__ unsigned tile;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16, across = (N + 15) / 16, tiles = across * ((M + 15) / 16);
    for (;;) {
        if (threadIdx.x == 0) tile = atomicAdd(&next, 1u);
        __syncthreads();
        if (tile >= tiles) return;
        int row = tile / across * 16 + ty, col = tile % across * 16 + tx;
        float s = 0;
        for (int t = 0; t < K; t += 16) {
            a[ty][tx] = row < M && t + tx < K ? A[row * K + t + tx] : 0.0f;
            b[ty][tx] = col < N && t + ty < K ? B[(t + ty) * N + col] : 0.0f;
            __syncthreads();
            for (int k = 0; k < 16; ++k) s += a[ty][k] * b[k][tx];
            if (t + 16 < K) __syncthreads();
        }
        if (row < M && col < N) C[row * N + col] = s;
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K, int blocks) {
    reset<<<1, 1>>>();
    k<<<blocks, 256>>>(A, B, C, M, N, K);
}
"""


def test_a_race_with_no_k_at_all_is_a_remark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The barriers of the loop over K keep two tiles apart; without any K nobody needs what they compute."""
    code, found = check(tmp_path, QUEUE, capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert "with K = 0 there is a race, and with no other K" in json.dumps(found)
    assert check(tmp_path, QUEUE, capsys, "--strict")[0] == 1
    racy = QUEUE.replace("if (t + 16 < K) __syncthreads();", "")
    assert check(tmp_path, racy, capsys)[1]["status"] == "racy"


def test_no_k_at_all_is_a_remark_on_a_kernel_for_whole_k_tiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, WHOLE_K_TILES, capsys)
    assert (code, found["status"]) == (0, "whole_tiles"), found
    assert "with K = 0 its result is wrong: C must become beta * C" in json.dumps(found)
    code, found = check(tmp_path, WHOLE_K_TILES, capsys, "--strict")
    assert code == 1


ONE_GRID = """
#define SIDE 4096
#define TILE 16
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float s = 0;
    for (int k = 0; k < SIDE; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    k<<<dim3(SIDE / TILE, SIDE / TILE), dim3(TILE, TILE)>>>(A, B, C, M, N, K);
}
"""


def test_a_launch_that_fits_one_problem_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, ONE_GRID, capsys)
    assert code == 2
    assert "has the same grid for every M, N and K" in found
    assert "--m, --n and --k" in found
