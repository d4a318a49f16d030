#include <cuda_runtime.h>
#include <algorithm>
// C must be zero at the start; every slice of K adds its part.
__global__ void sgemm_splitk_atomic(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K, int slice) {
  constexpr int T = 32;
  __shared__ float sa[T][T], sb[T][T];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row0 = blockIdx.y * T, col = blockIdx.x * T + x;
  const int begin = blockIdx.z * slice, end = min(begin + slice, K);
  float s[4] = {0.f, 0.f, 0.f, 0.f};
  for (int k0 = begin; k0 < end; k0 += T) {
    for (int i = 0; i < T; i += 8) {
      sa[y + i][x] = (row0 + y + i < M && k0 + x < end) ? A[(long)(row0 + y + i) * K + k0 + x] : 0.f;
      sb[y + i][x] = (k0 + y + i < end && col < N) ? B[(long)(k0 + y + i) * N + col] : 0.f;
    }
    __syncthreads();
    for (int k = 0; k < T; ++k) {
      const float b = sb[k][x];
      for (int i = 0; i < 4; ++i) s[i] += sa[y + 8 * i][k] * b;
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    const int row = row0 + y + 8 * i;
    if (row < M && col < N) atomicAdd_block(&C[(long)row * N + col], s[i]);
  }
}

void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
  const int splits = 4;
  const int slice = (K + splits - 1) / splits;
  dim3 grid((N + 31) / 32, (M + 31) / 32, splits);
  cudaMemsetAsync(C, 0, sizeof(float) * M * N);
  sgemm_splitk_atomic<<<grid, dim3(32, 8)>>>(A, B, C, M, N, K, slice);
}
