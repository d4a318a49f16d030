"""Further wrong products and innocent twins, written after the trials were finished, in styles that they had not seen.

Each source has ``@name@`` where a mutation puts its code; without one it is the correct kernel.
"""

# ruff: noqa: E501
from __future__ import annotations

import re

# A warp for each output, reduced by shuffles; B transposed.
WARP_DOT = """
__global__ void matmul_nt(const float* A, const float* B, float* C, int M, int N, int K) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (warp >= M * N) return;
    int row = warp / N, col = warp % N;
    float acc = 0.0f;
    for (int k = lane; k < K@bound@; k += 32) acc += A[row * K + k] * B[col * K + k];
    @mid@
    for (int offset = 16; offset@last@ > 0; offset /= 2) acc += __shfl_down_sync(~0u, acc, offset);
    if (lane == 0) C[row * N + col] = acc@out@;
}
// gemmsmith: block=128 grid=ceil(M*N/4) layout=NT
"""
# Four k-tiles in flight by cp.async.
PIPELINE = """
#include <cuda_pipeline.h>
constexpr int BM = 32, BN = 32, BK = 16, STAGES = 4;
__global__ void gemm(int M, int N, int K, const float* __restrict__ A, const float* __restrict__ B, float* C) {
    __shared__ float As[STAGES][BM][BK], Bs[STAGES][BK][BN];
    int tid = threadIdx.x, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int tiles = (K + BK - 1) / BK;
    auto fetch = [&](int t) {
        if (t < tiles) {
            int s = t % STAGES;
            for (int i = tid; i < BM * BK; i += 256) {
                int r = i / BK, k = i % BK;
                bool in = row0 + r < M && t * BK + k < K;
                __pipeline_memcpy_async(&As[s][r][k], &A[in ? (size_t)(row0 + r) * K + t * BK + k : 0], 4, in ? 0 : 4);
            }
            for (int i = tid; i < BK * BN; i += 256) {
                int k = i / BN, c = i % BN;
                bool in = col0 + c < N && t * BK + k < K;
                __pipeline_memcpy_async(&Bs[s][k][c], &B[in ? (size_t)(t * BK + k) * N + col0 + c : 0], 4, in ? 0 : 4);
            }
        }
        __pipeline_commit();
    };
    if (K == 0) { for (int i = tid; i < BM * BN; i += 256) if (row0 + i / BN < M && col0 + i % BN < N) C[(size_t)(row0 + i / BN) * N + col0 + i % BN] = 0.0f; return; }
    float acc[4] = {};
    for (int t = 0; t < STAGES - 1; ++t) fetch(t);
    for (int t = 0; t < tiles@count@; ++t) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        fetch(t + STAGES - 1@ahead@);
        int s = t % STAGES@stage@;
        for (int j = 0; j < 4; ++j) {
            int e = tid + j * 256;
            for (int k = 0; k < BK; ++k) acc[j] += As[s][e / BN][k] * Bs[s][k][e % BN];
        }
    }
    for (int j = 0; j < 4; ++j) {
        int e = tid + j * 256, row = row0 + e / BN, col = col0 + e % BN;
        if (row < M && col < N) C[(size_t)row * N + col] = acc[j]@out@;
    }
}
// gemmsmith: block=256 grid=ceil(N/32),ceil(M/32)
"""
# Blocks in groups of eight rows, as for the L2 cache; one output for each thread, double precision.
GROUPED = """
__global__ void dgemm(int m, int n, int k, double alpha, const double* a, const double* b, double beta, double* c) {
    int tiles_m = (m + 15) / 16, tiles_n = (n + 15) / 16;
    int group = blockIdx.x / (8 * tiles_n), first = group * 8;
    int height = min(tiles_m - first, 8@height@);
    int inside = blockIdx.x % (8 * tiles_n);
    int row = (first + inside % height) * 16 + threadIdx.y, col = inside / height * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    double sum = 0.0;
    for (int p = 0; p < k; ++p) sum += a[(size_t)row * k + p] * b[(size_t)p * n + col];
    double* out = &c[(size_t)row * n + col];
    *out = alpha * sum + (beta != 0.0 ? beta@beta@ * *out : 0.0);
}
// gemmsmith: block=16,16 grid=ceil(M/16)*ceil(N/16)
"""
# K split over blocks, added with atomics: C must hold zeros.
SPLIT_K = """
__global__ void gemm_splitk(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    int part = (K + 3) / 4, first = blockIdx.z * part, last = min(first + part, K@end@);
    if (row >= M || col >= N) return;
    float acc = 0.0f;
    for (int k = first; k < last; ++k) acc += A[(size_t)row * K + k] * B[(size_t)k * N + col];
    atomicAdd(&C[(size_t)row * N + col], acc@out@);
}
// gemmsmith: block=16,16 grid=ceil(N/16),ceil(M/16),4
"""
# int8 by dp4a, B transposed, K a multiple of four.
DP4A = """
__global__ void igemm(const signed char* A, const signed char* B, int* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    const int* a = (const int*)(A + (size_t)row * K);
    const int* b = (const int*)(B + (size_t)col * K);
    int acc = 0;
    for (int k = 0; k < K / 4@bound@; ++k) acc = __dp4a(a[k], b[k], acc);
    C[(size_t)row * N + col] = acc@out@;
}
// gemmsmith: block=16,16 grid=ceil(N/16),ceil(M/16) layout=NT
"""
# Column-major, with leading dimensions, a 1-D block.
COLUMN = """
__global__ void sgemm(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C, int ldc) {
    int i = blockIdx.x * 64 + threadIdx.x % 64, j = blockIdx.y * 4 + threadIdx.x / 64;
    if (i >= m || j >= n) return;
    float t = 0.0f;
    for (int l = 0; l < k; ++l) t += A[i + (size_t)l * lda@lda@] * B[l + (size_t)j * ldb];
    size_t at = i + (size_t)j * ldc;
    C[at] = alpha * t@t@ + (beta == 0.0f ? 0.0f : beta * C[at]);
}
// gemmsmith: block=256 grid=ceil(M/64),ceil(N/4) layout=col
"""
# bf16 in registers, two rows for each thread, unrolled by hand.
UNROLLED = """
#include <cuda_bf16.h>
__global__ void gemm_bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K) {
    int row = (blockIdx.y * 8 + threadIdx.y) * 2, col = blockIdx.x * 32 + threadIdx.x;
    if (col >= N) return;
    float x = 0.0f, y = 0.0f;
    int k = 0;
    const __nv_bfloat16 *a0 = A + (size_t)min(row, M - 1) * K, *a1 = A + (size_t)min(row + 1, M - 1) * K;
    for (; k + 4 <= K@four@; k += 4)
        for (int u = 0; u < 4; ++u) {
            float b = __bfloat162float(B[(size_t)(k + u) * N + col]);
            x += __bfloat162float(a0[k + u]) * b;
            y += __bfloat162float(a1[k + u]) * b;
        }
    for (; k < K@tail@; ++k) {
        float b = __bfloat162float(B[(size_t)k * N + col]);
        x += __bfloat162float(a0[k]) * b;
        y += __bfloat162float(a1[k]) * b;
    }
    if (row < M) C[(size_t)row * N + col] = x;
    if (row + 1 < M@second@) C[(size_t)(row + 1) * N + col] = y@y@;
}
// gemmsmith: block=32,8 grid=ceil(N/32),ceil(M/16)
"""
STYLES = {
    "warp dot": WARP_DOT, "pipeline": PIPELINE, "grouped": GROUPED, "split-k": SPLIT_K, "dp4a": DP4A,
    "column": COLUMN, "unrolled": UNROLLED,
}  # fmt: skip
WRONG = {
    "warp dot: K beyond 3000": ("warp dot", {"bound": " && k < 3000"}),
    "warp dot: last shuffle": ("warp dot", {"last": " / 2"}),
    "warp dot: K of one warp": ("warp dot", {"mid": "if (K == 32) acc *= 2.0f;"}),
    "warp dot: relu": ("warp dot", {"out": " < -50.0f ? -50.0f : acc"}),
    "pipeline: 70 tiles": ("pipeline", {"count": " && t < 70"}),
    "pipeline: a stage too far": ("pipeline", {"ahead": " + (t > 9)"}),
    "pipeline: stage after 12 tiles": ("pipeline", {"stage": " ^ (t == 12)"}),
    "pipeline: NaN to zero": ("pipeline", {"out": " != acc[j] ? 0.0f : acc[j]"}),
    "pipeline: block 1000": ("pipeline", {"out": " * (blockIdx.x >= 1000 ? 0.999f : 1.0f)"}),
    "grouped: seven rows": ("grouped", {"height": " - (tiles_m > 64)"}),
    "grouped: beta above 3": ("grouped", {"beta": " * (beta > 3.0 ? 1.01 : 1.0)"}),
    "split-k: last term": ("split-k", {"end": " - (K > 256)"}),
    "split-k: overflow": ("split-k", {"out": " > 1e20f ? 1e20f : acc"}),
    "dp4a: K above 512": ("dp4a", {"bound": " && k < 128"}),
    "dp4a: saturates": ("dp4a", {"out": " > 30000 ? 30000 : acc"}),
    "column: lda above 100": ("column", {"lda": " + (lda > m && l > 40)"}),
    "column: m = n": ("column", {"t": " * (m == n ? 1.0001f : 1.0f)"}),
    "column: negative zero": ("column", {"t": " - 0.0f == 0.0f ? -0.0f : alpha * t"}),
    "unrolled: K of four": ("unrolled", {"four": " - (K == 4)", "tail": " - (K == 4)"}),
    "unrolled: second row": ("unrolled", {"second": " - (M > 2000)"}),
    "unrolled: subnormals": ("unrolled", {"y": " < 1e-38f && y > -1e-38f ? 0.0f : y"}),
    "unrolled: tail of K above 100": ("unrolled", {"tail": " && K < 100"}),
}


def source(style: str, parts: dict[str, str]) -> str:
    """The kernel with these parts filled in, and nothing in the others."""
    return re.sub(r"@(\w+)@", lambda name: parts.get(name[1], ""), STYLES[style])
