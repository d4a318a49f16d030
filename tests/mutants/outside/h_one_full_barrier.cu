#include <cuda_runtime.h>

// a producer warp and a consumer warp, hand-over by named barriers
#define FULL0 1
#define EMPTY0 3
__device__ __forceinline__ void bar_sync(int id) { asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory"); }
__device__ __forceinline__ void bar_arrive(int id) { asm volatile("bar.arrive %0, 64;" ::"r"(id) : "memory"); }

__global__ void gemm_named(const float *A, const float *B, float *C, int M, int N, int K) {
  __shared__ float As[2][8][8];
  __shared__ float Bs[2][8][8];
  const int lane = threadIdx.x % 32;
  const bool producer = threadIdx.x < 32;
  const int m0 = blockIdx.y * 8, n0 = blockIdx.x * 8;
  const int steps = (K + 7) / 8;
  if (producer) {
    for (int t = 0; t < steps; ++t) {
      const int s = t & 1;
      if (t > 1) bar_sync(EMPTY0 + s);
      for (int i = lane; i < 64; i += 32) {
        const int r = i / 8, c = i % 8;
        As[s][r][c] = (m0 + r < M && t * 8 + c < K) ? A[(size_t)(m0 + r) * K + t * 8 + c] : 0.f;
        Bs[s][r][c] = (t * 8 + r < K && n0 + c < N) ? B[(size_t)(t * 8 + r) * N + n0 + c] : 0.f;
      }
      bar_arrive(FULL0);
    }
  } else {
    float acc0 = 0.f, acc1 = 0.f;
    const int r = lane / 8, c = lane % 8;
    for (int t = 0; t < steps; ++t) {
      const int s = t & 1;
      bar_sync(FULL0);
      for (int k = 0; k < 8; ++k) {
        acc0 += As[s][r][k] * Bs[s][k][c];
        acc1 += As[s][r + 4][k] * Bs[s][k][c];
      }
      if (t + 2 < steps) bar_arrive(EMPTY0 + s);
    }
    if (m0 + r < M && n0 + c < N) C[(size_t)(m0 + r) * N + n0 + c] = acc0;
    if (m0 + r + 4 < M && n0 + c < N) C[(size_t)(m0 + r + 4) * N + n0 + c] = acc1;
  }
}

void run(const float *A, const float *B, float *C, int M, int N, int K) {
  gemm_named<<<dim3((N + 7) / 8, (M + 7) / 8), 64>>>(A, B, C, M, N, K);
}
