#include <cuda_runtime.h>
// Four columns for each thread, by one guard: N is a multiple of 4.
__global__ void fours(const float* A, const float* B, float* C, int M, int N, int K) {
  const int c = (blockIdx.x * 16 + threadIdx.x) * 4, r = blockIdx.y * 8 + threadIdx.y;
  if (r >= M || c >= N) return;
  float s[4] = {};
  for (int k = 0; k < K; k++) for (int j = 0; j < 4; j++) s[j] += A[r * K + k] * B[k * N + c + j];
  for (int j = 0; j < 4; j++) C[r * N + c + j] = s[j];
}
void go(const float* A, const float* B, float* C, int M, int N, int K) { fours<<<dim3((N + 63) / 64, (M + 7) / 8), dim3(16, 8)>>>(A, B, C, M, N, K); }
