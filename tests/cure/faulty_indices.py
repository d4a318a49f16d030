"""Kernels with a wrong number, divisor, factor or stride in an index, or launched with too little."""

from __future__ import annotations

from faulty_kernel import Faulty
from faulty_values import change

# Tiles are numbered along x; shared arrays are flat; every constant differs.
FLAT = """
#define BM 32
#define BN 64
#define BK 16
__global__ void flat(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[BM * BK];
    __shared__ float Bs[BK * BN];
    int across = N / BN, down = M / BM;
    int tileRow = blockIdx.x / across, tileCol = blockIdx.x % across;
    int tid = threadIdx.x, ty = tid / 16, tx = tid % 16;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = tid; i < BM * BK; i += 128) As[i] = A[(tileRow * BM + i / BK) * K + k0 + i % BK];
        for (int i = tid; i < BK * BN; i += 128) Bs[i] = B[(k0 + i / BN) * N + tileCol * BN + i % BN];
        __syncthreads();
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) acc[i][j] += As[(ty * 4 + i) * BK + k] * Bs[k * BN + tx * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) C[(tileRow * BM + ty * 4 + i) * N + tileCol * BN + tx * 4 + j] = acc[i][j];
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    flat<<<(N / BN) * (M / BM), 128>>>(A, B, C, M, N, K);
}
"""
# One warp, one tile of mma.m16n8k16 from fragments in registers.
FRAGMENTS = """
#include <cuda_fp16.h>
__global__ void fragments(const half* A, const half* B, float* C, int M, int N, int K) {
    int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    int row = blockIdx.y * 16, col = blockIdx.x * 8;
    float c[4] = {};
    for (int k = 0; k < K; k += 16) {
        unsigned a[4], b[2];
        a[0] = *(const unsigned*)&A[(row + g) * K + k + t * 2];
        a[1] = *(const unsigned*)&A[(row + g + 8) * K + k + t * 2];
        a[2] = *(const unsigned*)&A[(row + g) * K + k + t * 2 + 8];
        a[3] = *(const unsigned*)&A[(row + g + 8) * K + k + t * 2 + 8];
        for (int i = 0; i < 2; ++i) {
            half2 pair = __halves2half2(B[(k + t * 2 + i * 8) * N + col + g], B[(k + t * 2 + i * 8 + 1) * N + col + g]);
            b[i] = *(unsigned*)&pair;
        }
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    C[(row + g) * N + col + t * 2] = c[0];
    C[(row + g) * N + col + t * 2 + 1] = c[1];
    C[(row + g + 8) * N + col + t * 2] = c[2];
    C[(row + g + 8) * N + col + t * 2 + 1] = c[3];
}
void f(half* A, half* B, float* C, int M, int N, int K) {
    fragments<<<dim3(N / 8, M / 16), 32>>>(A, B, C, M, N, K);
}
"""
DYNAMIC = """
#define T 16
__global__ void dynamic(const float* A, const float* B, float* C, int M, int N, int K) {
    extern __shared__ float tiles[];
    float *a = tiles, *b = tiles + T * T;
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += T) {
        a[y * T + x] = A[row * K + k0 + x];
        b[y * T + x] = B[(k0 + y) * N + col];
        __syncthreads();
        for (int k = 0; k < T; ++k) sum += a[y * T + k] * b[k * T + x];
        __syncthreads();
    }
    C[row * N + col] = sum;
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    dim3 block(16, 16);
    size_t bytes = 2 * T * T * sizeof(float);
    dynamic<<<dim3(N / T, M / T), block, bytes>>>(A, B, C, M, N, K);
}
"""

INDICES = [
    Faulty("tiles_by_the_other_count", change(FLAT, "blockIdx.x / across, tileCol = blockIdx.x % across",
                                              "blockIdx.x / down, tileCol = blockIdx.x % down"),
           "wrong-divisor", "blockIdx.x % across", edits=2),
    Faulty("stride_of_the_other_tile", change(FLAT, "Bs[k * BN + tx", "Bs[k * BK + tx"), "wrong-stride", "k * BN"),
    Faulty("lanes_taken_apart_by_half", change(FLAT, "ty = tid / 16, tx = tid % 16", "ty = tid / 8, tx = tid % 8"),
           "wrong-number", "tid % 16", edits=2),
    Faulty("steps_of_more_threads", change(FLAT, "i < BM * BK; i += 128", "i < BM * BK; i += 256"), "loop-step",
           "blockDim.x"),
    Faulty("columns_of_an_accumulator",
           FRAGMENTS.replace("t * 2 + 1] = c", "t + 4] = c").replace("t * 2] = c", "t] = c"), "wrong-fragment",
           "col + t * 2 + 1] = c[3]", edits=4),
    Faulty("rows_of_b_without_a_factor", change(FRAGMENTS, "B[(k + t * 2 + i * 8) * N + col + g], B[(k + t * 2 + i",
                                                "B[(k + t + i * 8) * N + col + g], B[(k + t + i"),
           "wrong-factor", "t * 2 + i * 8", edits=2),
    Faulty("bytes_of_one_tile", change(DYNAMIC, "2 * T * T * sizeof", "T * T * sizeof"), "few-shared-bytes"),
    Faulty("half_of_the_block", change(DYNAMIC, "block(16, 16)", "block(16, 8)"), "wrong-block", "block(16, 16)"),
]  # fmt: skip
