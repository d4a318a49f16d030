// A warp makes 1 row x 8 columns of C: lanes go along K, the sums are folded with shuffles. B is stored as N x K.
#include <cuda_runtime.h>
#define FULL 0xffffffffu
constexpr int COLS = 8;
constexpr int WARPS = 4;

__global__ void gemm_nt_warp(const float* A, const float* Bt, float* C, int M, int N, int K) {
    const int lane = threadIdx.x;
    const int row = blockIdx.y * WARPS + threadIdx.y;
    const int col0 = blockIdx.x * COLS;
    if (row >= M) return;
    float sum[COLS];
#pragma unroll
    for (int j = 0; j < COLS; ++j) sum[j] = 0.f;
    for (int k = lane; k < K; k += 32) {
        const float a = __ldg(A + (size_t)row * K + k);
#pragma unroll
        for (int j = 0; j < COLS; ++j)
            if (col0 + COLS <= N) sum[j] = fmaf(a, __ldg(Bt + (size_t)(col0 + j) * K + k), sum[j]);
    }
#pragma unroll
    for (int j = 0; j < COLS; ++j) {
#pragma unroll
        for (int d = 16; d > 0; d >>= 1) sum[j] += __shfl_xor_sync(FULL, sum[j], d);
    }
    if (lane < COLS && col0 + lane < N) {
        float mine = 0.f;
#pragma unroll
        for (int j = 0; j < COLS; ++j)
            if (j == lane) mine = sum[j];
        C[(size_t)row * N + col0 + lane] = mine;
    }
}

void gemm_nt(const float* A, const float* Bt, float* C, int M, int N, int K) {
    dim3 threads(32, WARPS);
    dim3 blocks((N + COLS - 1) / COLS, (M + WARPS - 1) / WARPS);
    gemm_nt_warp<<<blocks, threads>>>(A, Bt, C, M, N, K);
}
