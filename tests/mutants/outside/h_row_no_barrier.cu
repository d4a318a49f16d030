#include <cuda_runtime.h>

// one block per row of C and 4 columns: threads along K, shuffles, then one warp over the warps' sums
__global__ void gemm_row(const float *A, const float *B, float *C, int M, int N, int K, float alpha) {
  __shared__ float part[4][4];
  const int row = blockIdx.y, col0 = blockIdx.x * 4;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float s[4] = {0.f, 0.f, 0.f, 0.f};
  for (int k = threadIdx.x; k < K; k += 128) {
    const float a = A[(size_t)row * K + k];
    for (int j = 0; j < 4; ++j)
      if (col0 + j < N) s[j] += a * B[(size_t)k * N + col0 + j];
  }
  for (int j = 0; j < 4; ++j)
    for (int d = 16; d > 0; d >>= 1) s[j] += __shfl_down_sync(0xffffffff, s[j], d);
  if (lane == 0)
    for (int j = 0; j < 4; ++j) part[warp][j] = s[j];
  if (threadIdx.x < 4 && col0 + threadIdx.x < N) {
    float sum = 0.f;
    for (int w = 0; w < 4; ++w) sum += part[w][threadIdx.x];
    C[(size_t)row * N + col0 + threadIdx.x] = alpha * sum;
  }
}

void run(const float *A, const float *B, float *C, int M, int N, int K, float alpha) {
  gemm_row<<<dim3((N + 3) / 4, M), 128>>>(A, B, C, M, N, K, alpha);
}
