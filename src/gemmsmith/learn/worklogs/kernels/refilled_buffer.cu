// One buffer for two k-tiles: the copy of the next tile starts after half of this one was read,
// into the same memory. Warps that are behind read the new tile where they should read the old one.
// Two buffers cure it: FIXED=1.
#include <cuda_pipeline.h>

#define T 32
#ifndef FIXED
#define FIXED 0
#endif

__device__ void copy_tile(float (*to)[T], const float* from, int stride) {
    int piece = threadIdx.x % 8 * 4;
    for (int row = threadIdx.x / 8; row < T; row += 16)
        __pipeline_memcpy_async(&to[row][piece], from + row * stride + piece, 16);
}

__device__ void multiply(float* sums, float (*As)[T], float (*Bs)[T], int first, int last) {
    int col = threadIdx.x % T, row = threadIdx.x / T * 8;
    for (int k = first; k < last; ++k)
        for (int i = 0; i < 8; ++i) sums[i] += As[row + i][k] * Bs[k][col];
}

// M, N and K are multiples of 32; 128 threads compute 32 x 32 outputs.
__global__ void sgemm(float* C, const float* A, const float* B, int M, int N, int K) {
    __shared__ alignas(16) float As[1 + FIXED][T][T], Bs[1 + FIXED][T][T];
    const float* a = A + blockIdx.y * T * K;
    const float* b = B + blockIdx.x * T;
    float sums[8] = {};
    copy_tile(As[0], a, K);
    copy_tile(Bs[0], b, N);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int tile = 0; tile < K / T; ++tile) {
        int now = FIXED * (tile % 2), next = FIXED * ((tile + 1) % 2);
        multiply(sums, As[now], Bs[now], 0, T / 2);
        if (tile + 1 < K / T) {
            copy_tile(As[next], a + (tile + 1) * T, K);
            copy_tile(Bs[next], b + (tile + 1) * T * N, N);
            __pipeline_commit();
        }
        multiply(sums, As[now], Bs[now], T / 2, T);
        __pipeline_wait_prior(0);
        __syncthreads();
    }
    int row = blockIdx.y * T + threadIdx.x / T * 8, col = blockIdx.x * T + threadIdx.x % T;
    for (int i = 0; i < 8; ++i) C[(row + i) * N + col] = sums[i];
}

void launch(float* C, const float* A, const float* B, int M, int N, int K) {
    sgemm<<<dim3(N / T, M / T), 128>>>(C, A, B, M, N, K);
}
