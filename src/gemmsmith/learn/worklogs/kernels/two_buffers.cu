// Two buffers of two 64 x 64 tiles of floats: 64 KB, which a kernel gets as dynamic shared memory
// after the host has opted in (cudaFuncAttributeMaxDynamicSharedMemorySize). 48 KB is the limit of
// what needs no opt-in.
#include <cuda_pipeline.h>

#define T 64
#define BYTES (2 * 2 * T * T * 4)

__device__ void copy_tile(float* to, const float* from, int stride) {
    for (int piece = threadIdx.x; piece < T * T / 4; piece += 128)
        __pipeline_memcpy_async(to + piece * 4, from + piece / (T / 4) * stride + piece % (T / 4) * 4, 16);
}

// M, N and K are multiples of 64; 128 threads compute 8 x 4 outputs each.
__global__ void __launch_bounds__(128) sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    extern __shared__ float4 memory[];
    float* tiles = reinterpret_cast<float*>(memory);
    const float* a = A + blockIdx.y * T * K;
    const float* b = B + blockIdx.x * T;
    int row = threadIdx.x / 16 * 8, col = threadIdx.x % 16 * 4;
    float sums[8][4] = {};
    copy_tile(tiles, a, K);
    copy_tile(tiles + T * T, b, N);
    __pipeline_commit();
    for (int tile = 0; tile < K / T; ++tile) {
        const float* As = tiles + tile % 2 * 2 * T * T;
        const float* Bs = As + T * T;
        __pipeline_wait_prior(0);
        __syncthreads();
        if (tile + 1 < K / T) {
            float* next = tiles + (tile + 1) % 2 * 2 * T * T;
            copy_tile(next, a + (tile + 1) * T, K);
            copy_tile(next + T * T, b + (tile + 1) * T * N, N);
            __pipeline_commit();
        }
        for (int k = 0; k < T; ++k)
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sums[i][j] += As[(row + i) * T + k] * Bs[k * T + col + j];
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 4; ++j) C[(blockIdx.y * T + row + i) * N + blockIdx.x * T + col + j] = sums[i][j];
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    cudaFuncSetAttribute(sgemm, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    sgemm<<<dim3(N / T, M / T), 128, BYTES>>>(A, B, C, M, N, K);
}
