"""Kernels as beginners write them: the other one of a pair, steps that the launch does not have, overlapping arrays."""

from __future__ import annotations

from faulty_kernel import Faulty
from faulty_values import BLOCKTILE, NAIVE, TILED_OK, change

VECTORS = """
__global__ void rows_by_rows(const float* A, const float* W, float* C, int M, int N, int K) {
    int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
    if (i >= M || j >= N) return;
    const float4 *a = (const float4*)(A + i * K), *w = (const float4*)(W + j * K);
    float sum = 0;
    for (int k = 0; k < K / 4; ++k) {
        float4 p = a[k], q = w[k];
        sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
    }
    C[i * N + j] = sum;
}
void run(float* A, float* W, float* C, int M, int N, int K) {
    rows_by_rows<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, W, C, M, N, K);
}
"""
FRAGMENT = """
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void wmma_gemm(const half* A, const half* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
    wmma::fill_fragment(sums, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(sums, a, b, sums);
    }
    wmma::store_matrix_sync(C + row * N + col, sums, N, wmma::mem_row_major);
}
void run(half* A, half* B, float* C, int M, int N, int K) {
    wmma_gemm<<<dim3(N / 16, M / 16), 32>>>(A, B, C, M, N, K);
}
"""
DYNAMIC = """
__global__ void matmul_two_tiles(const float* A, const float* B, float* C, int M, int N, int K, int side) {
    extern __shared__ float left[];
    extern __shared__ float right[];  //!
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * side + y, col = blockIdx.x * side + x;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += side) {
        left[y * side + x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0;
        right[y * side + x] = col < N && k0 + y < K ? B[(k0 + y) * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < side; ++k) sum += left[y * side + k] * right[k * side + x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
void run(float* A, float* B, float* C, int M, int N, int K) {
    int side = 8;
    dim3 grid((N + side - 1) / side, (M + side - 1) / side), block(side, side);
    matmul_two_tiles<<<grid, block, 2 * side * side * sizeof(float)>>>(A, B, C, M, N, K, side);
}
"""
PARTS = """
__global__ void parts(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N) return;
    if (blockIdx.z == 0) C[row * N + col] = 0;  //!
    float sum = 0;
    for (int k = blockIdx.z; k < K; k += 4) sum += A[row * K + k] * B[k * N + col];
    atomicAdd(&C[row * N + col], sum);
}
void run(float* A, float* B, float* C, int M, int N, int K) {
    dim3 grid((N + 15) / 16, (M + 15) / 16, 4);
    parts<<<grid, dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
TREE = """
__global__ void tree(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float sums[64];
    int t = threadIdx.x;
    float sum = 0;
    for (int k = t; k < K; k += 64) sum += A[blockIdx.y * K + k] * B[k * N + blockIdx.x];
    sums[t] = sum;
    __syncthreads();
    for (int d = 32; d > 0; d /= 2) {
        if (t < d) sums[t] += sums[t + d];
        __syncthreads();
    }
    if (t == 0) C[blockIdx.y * N + blockIdx.x] = sums[0];
}
void run(float* A, float* B, float* C, int M, int N, int K) { tree<<<dim3(N, M), 64>>>(A, B, C, M, N, K); }
"""

_LEAVES = "for (int k0 = 0; k0 < K; k0 += T) {"
PAIRS = [
    Faulty("axis_of_the_block", change(NAIVE, "blockIdx.y * blockDim.y", "blockIdx.y * blockDim.x"),
           "mismatched-axis", "blockIdx.y * blockDim.y"),
    Faulty("sum_of_integers", change(NAIVE, "float sum = 0.0f;", "int sum = 0;"), "narrow-accumulator", "float sum"),
    Faulty("component_twice", change(VECTORS, "p.w * q.w", "p.w * q.z"), "wrong-component", "p.w * q.w"),
    Faulty("fragment_of_the_other_order",
           change(FRAGMENT, "half, wmma::row_major> b;", "half, wmma::col_major> b;"),
           "wrong-fragment-layout", "half, wmma::row_major> b;"),
    Faulty("fragment_not_filled", change(FRAGMENT, "    wmma::fill_fragment(sums, 0.0f);\n", "").replace("//!", ""),
           "uninitialised-accumulator", "fill_fragment(sums, 0.0f)"),
    Faulty("thread_of_the_other_axis", change(TILED_OK, "? B[(k0 + ty) * N + col]", "? B[(k0 + tx) * N + col]"),
           "wrong-thread-axis", "B[(k0 + ty) * N + col]"),
    Faulty("row_without_its_tile", change(BLOCKTILE, "As[(threadRow * TM + resIdx)", "As[(threadRow + resIdx)"),
           "unlike-index", "As[(threadRow * TM + resIdx)"),
    Faulty("pointer_by_elements", change(BLOCKTILE, "B += BK * N;", "B += BK;"), "pointer-step", "B += BK * N;"),
    Faulty("block_without_its_column", change(BLOCKTILE, "C += cRow * BM * N + cCol * BN;", "C += cRow * BM * N;"),
           "missing-block-term", "cRow * BM * N + cCol * BN"),
    Faulty("flat_block", change(NAIVE, "dim3 blockDim(32, 8);", "dim3 blockDim(256);").replace(
        "(N + 31) / 32, (M + 7) / 8", "(N + 15) / 16, (M + 15) / 16"), "flat-block", "blockDim(16, 16)"),
    Faulty("arrays_at_one_place", DYNAMIC, "shared-overlap", "float* right = left + side * side;"),
    Faulty("cleared_by_a_block", PARTS, "cleared-too-late", "cudaMemset(C, 0, sizeof(*C) * M * N);"),
    Faulty("tree_without_its_last_step", change(TREE, "d > 0; d /= 2", "d > 1; d /= 2"), "reduction-distance", "d > 0"),
    Faulty("leaves_the_loop", change(TILED_OK, _LEAVES, f"{_LEAVES}\n        if (row >= M || col >= N) break;"),
           "early-return"),
    Faulty("barrier_of_a_warp",
           (TILED_OK[: TILED_OK.rindex("__syncthreads")] + TILED_OK[TILED_OK.rindex("__syncthreads") :].replace(
               "__syncthreads();", "__syncwarp();  //!", 1)), "narrow-barrier", "__syncthreads();"),
]  # fmt: skip
