#include <cuda_runtime.h>

// four steps of k at a time, the rest one by one; each thread has four columns, 16 apart
__global__ void gemm_unrolled(float *C, const float *A, const float *B, int M, int N, int K) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col0 = blockIdx.x * 64 + threadIdx.x;
  if (row >= M) return;
  float s[4] = {0, 0, 0, 0};
  const float *a = A + (size_t)row * K;
  int k = 0;
  for (; k + 3 < K; k += 4) {
    float a0 = a[k], a1 = a[k + 1], a2 = a[k + 2], a3 = a[k + 3];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int c = col0 + 16 * j;
      if (c < N) {
        const float *b = B + (size_t)k * N + c;
        s[j] += a0 * b[0];
        s[j] += a1 * b[N];
        s[j] += a2 * b[2 * N];
        s[j] += a3 * b[3 * N];
      }
    }
  }
  for (; k < K - 1; ++k)
    for (int j = 0; j < 4; ++j) {
      int c = col0 + 16 * j;
      if (c < N) s[j] += a[k] * B[(size_t)k * N + c];
    }
  for (int j = 0; j < 4; ++j)
    if (col0 + 16 * j < N) C[(size_t)row * N + col0 + 16 * j] = s[j];
}

void gemm(float *C, const float *A, const float *B, int M, int N, int K) {
  dim3 block(16, 8);
  dim3 grid((N + 63) / 64, (M + 7) / 8);
  gemm_unrolled<<<grid, block>>>(C, A, B, M, N, K);
}
