#include <cuda_runtime.h>

// a warp computes 32 columns of one row; each lane keeps 32 consecutive elements of A and broadcasts them
__global__ void gemm_shuffle(const float *A, const float *B, float *C, int M, int N, int K) {
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int row = blockIdx.y * 4 + warp;
  const int col = blockIdx.x * 32 + lane;
  if (row >= M) return;
  float acc = 0.f;
  for (int k0 = 0; k0 < K; k0 += 32) {
    const float mine = k0 + lane < K ? A[(size_t)row * K + k0 + lane] : 0.f;
    const int depth = min(32, K - k0);
    for (int k = 0; k < depth; ++k) {
      const float a = __shfl_sync(0x0000ffffu, mine, k & 15);
      const float b = col < N ? B[(size_t)(k0 + k) * N + col] : 0.f;
      acc += a * b;
    }
  }
  if (col < N) C[(size_t)row * N + col] = acc;
}

void run(const float *A, const float *B, float *C, int M, int N, int K) {
  gemm_shuffle<<<dim3((N + 31) / 32, (M + 3) / 4), 128>>>(A, B, C, M, N, K);
}
