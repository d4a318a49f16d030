// gemmsmith learn: pipeline
//
// Tiles are copied asynchronously, and then everybody waits for them: nothing overlaps. M, N and K
// are multiples of 32.
//
//   __pipeline_memcpy_async(to, from, 16)   starts a copy of 16 bytes to shared memory, and goes on
//   __pipeline_commit()                     ends a group of copies
//   __pipeline_wait_prior(n)                waits until all but the latest n groups have arrived (for this thread)

#include <cuda_pipeline.h>

#define T 32

__device__ void copy_tile(float (*to)[T], const float* from, int stride) {
    int piece = threadIdx.x % 8 * 4;
    for (int row = threadIdx.x / 8; row < T; row += 16)
        __pipeline_memcpy_async(&to[row][piece], from + row * stride + piece, 16);
}

__device__ void multiply(float* sums, float (*As)[T], float (*Bs)[T]) {
    int col = threadIdx.x % T, row = threadIdx.x / T * 8;
    for (int k = 0; k < T; ++k)
        for (int i = 0; i < 8; ++i) sums[i] += As[row + i][k] * Bs[k][col];
}

__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ alignas(16) float As[1][T][T], Bs[1][T][T];
    const float* a = A + blockIdx.y * T * K;
    const float* b = B + blockIdx.x * T;
    float sums[8] = {};
    for (int tile = 0; tile < K / T; ++tile) {
        copy_tile(As[0], a + tile * T, K);
        copy_tile(Bs[0], b + tile * T * N, N);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        multiply(sums, As[0], Bs[0]);
        __syncthreads();
    }
    int row = blockIdx.y * T + threadIdx.x / T * 8, col = blockIdx.x * T + threadIdx.x % T;
    for (int i = 0; i < 8; ++i) C[(row + i) * N + col] = sums[i];
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    sgemm<<<dim3(N / T, M / T), 128>>>(A, B, C, M, N, K);
}
