// Persistent blocks take tiles from a counter in global memory.
#include <cuda_runtime.h>

#define TILE_M 32
#define TILE_N 32
#define TILE_K 16

__global__ void persistent_gemm(int M, int N, int K, const float* A, int lda, const float* B, int ldb, float* C, int ldc,
                                int* next_tile) {
    __shared__ float sa[TILE_K][TILE_M + 1];
    __shared__ float sb[TILE_K][TILE_N];
    __shared__ int s_tile;
    const int tiles_n = (N + TILE_N - 1) / TILE_N;
    const int tiles = tiles_n * ((M + TILE_M - 1) / TILE_M);
    const int t = threadIdx.x;            // 256 threads
    const int tm = t / 16 * 2, tn = t % 16 * 2;
    while (true) {
        if (t == 0) s_tile = atomicAdd(next_tile, 1);
        __syncthreads();
        const int tile = s_tile;
        if (tile >= tiles) break;
        const int m0 = tile / tiles_n * TILE_M, n0 = tile % tiles_n * TILE_N;
        float c00 = 0, c01 = 0, c10 = 0, c11 = 0;
        for (int k0 = 0; k0 < K; k0 += TILE_K) {
            for (int i = t; i < TILE_M * TILE_K; i += 256) {
                int r = i / TILE_K, k = i % TILE_K;
                sa[k][r] = (m0 + r < M && k0 + k < K) ? A[(long long)(m0 + r) * lda + k0 + k] : 0.f;
            }
            for (int i = t; i < TILE_K * TILE_N; i += 256) {
                int k = i / TILE_N, c = i % TILE_N;
                sb[k][c] = (k0 + k < K && n0 + c < N) ? B[(long long)(k0 + k) * ldb + n0 + c] : 0.f;
            }
            __syncthreads();
            for (int k = 0; k < TILE_K; ++k) {
                float a0 = sa[k][tm], a1 = sa[k][tm + 1], b0 = sb[k][tn], b1 = sb[k][tn + 1];
                c00 += a0 * b0; c01 += a0 * b1; c10 += a1 * b0; c11 += a1 * b1;
            }
            __syncthreads();
        }
        const int r = m0 + tm, c = n0 + tn;
        if (r < M && c < N) C[(long long)r * ldc + c] = c00;
        if (r < M && c + 1 < N) C[(long long)r * ldc + c + 1] = c01;
        if (r + 1 < M && c < N) C[(long long)(r + 1) * ldc + c] = c10;
        if (r + 1 < M && c < N) C[(long long)(r + 1) * ldc + c + 1] = c11;
        __syncthreads();
    }
}

void launch(int M, int N, int K, const float* A, const float* B, float* C, int* counter, cudaStream_t stream) {
    cudaMemsetAsync(counter, 0, sizeof(int), stream);
    persistent_gemm<<<8, 256, 0, stream>>>(M, N, K, A, K, B, N, C, N, counter);
}
