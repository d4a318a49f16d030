// Few rows (decode): a block of 8 warps makes 4 rows x 32 columns; warps split K, sums meet in shared memory. fp16 weights.
#include <cuda_fp16.h>
#define ROWS 4
#define NWARPS 8

__global__ void skinny_gemm(const __half* __restrict__ X, const __half* __restrict__ W, __half* __restrict__ Y, int M, int N, int K) {
    __shared__ float red[NWARPS][ROWS][32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int n = blockIdx.x * 32 + lane, m0 = blockIdx.y * ROWS;
    float acc[ROWS] = {0.f, 0.f, 0.f, 0.f};
    for (int k = warp; k < K; k += NWARPS) {
        const float w = n < N ? __half2float(W[(size_t)k * N + n]) : 0.f;
#pragma unroll
        for (int i = 0; i < ROWS; ++i)
            if (m0 + i < M) acc[i] += __half2float(X[(size_t)(m0 + i) * K + k]) * w;
    }
    for (int i = 0; i < ROWS; ++i) red[warp][i][lane] = acc[i];
    __syncthreads();
    if (warp < ROWS && m0 + warp < M && n < N) {
        float s = 0.f;
        for (int p = 0; p < NWARPS; ++p) s += red[p][warp][lane];
        Y[(size_t)(m0 + warp) * N + n] = __float2half(s);
    }
}

void decode_gemm(const __half* X, const __half* W, __half* Y, int M, int N, int K, cudaStream_t s) {
    skinny_gemm<<<dim3((N + 31) / 32, (M + ROWS - 1) / ROWS), NWARPS * 32, 0, s>>>(X, W, Y, M, N, K);
}
