// Tiles are drawn from a counter that the last block sets back. 32 x 32 tiles, 16 deep, 256 threads. Any size.
#include <cuda_runtime.h>

__device__ unsigned next_tile, finished;

__global__ void sgemm_tickets(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][33], b[16][32];
    __shared__ unsigned mine;
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const unsigned across = (N + 31) / 32, tiles = across * ((M + 31) / 32);
    while (true) {
        if (t == 0) mine = atomicAdd(&next_tile, 1u);
        __syncthreads();
        const unsigned tile = mine;
        if (tile >= tiles) break;
        const int m0 = tile / across * 32, n0 = tile % across * 32;
        float acc[2][2] = {};
        for (int k0 = 0; k0 < K; k0 += 16) {
            for (int e = t; e < 512; e += 256) {
                const int r = e / 16, k = e % 16, kr = e / 32, c = e % 32;
                a[k][r] = m0 + r < M && k0 + k < K ? A[(size_t)(m0 + r) * K + k0 + k] : 0.f;
                b[kr][c] = k0 + kr < K && n0 + c < N ? B[(size_t)(k0 + kr) * N + n0 + c] : 0.f;
            }
            __syncthreads();
            for (int k = 0; k < 16; ++k)
                for (int i = 0; i < 2; ++i)
                    for (int j = 0; j < 2; ++j) acc[i][j] += a[k][ty * 2 + i] * b[k][tx * 2 + j];
            __syncthreads();
        }
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) {
                const int row = m0 + ty * 2 + i, col = n0 + tx * 2 + j;
                if (row < M && col < N) C[(size_t)row * N + col] = acc[i][j];
            }
        __syncthreads();
    }
    if (t == 0 && atomicAdd(&finished, 1u) == gridDim.x - 1) {
        next_tile = 0;
        finished = 0;
    }
}

void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    sgemm_tickets<<<12, 256>>>(A, B, C, M, N, K);
}
