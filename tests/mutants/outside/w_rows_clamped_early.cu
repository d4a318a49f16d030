#include <cuda_runtime.h>
// Eight rows for each thread, the last ones clamped.
__global__ void eight_rows(const float* A, const float* B, float* C, int M, int N, int K) {
  const int c = blockIdx.x * 64 + threadIdx.x, r0 = blockIdx.y * 8;
  if (c >= N) return;
  float sum[8] = {};
  const int rows = min(8, M - r0);
  for (int k = 0; k < K; k++) {
    const float b = B[k * N + c];
#pragma unroll
    for (int i = 0; i < 8; i++) sum[i] += A[min(r0 + i, M - 1 - (rows < 8)) * K + k] * b;
  }
  for (int i = 0; i < rows; i++) C[(r0 + i) * N + c] = sum[i];
}
void go(const float* A, const float* B, float* C, int M, int N, int K) { eight_rows<<<dim3((N + 63) / 64, (M + 7) / 8), 64>>>(A, B, C, M, N, K); }
