// Right: a fast path for alpha = 1 and beta = 0; the other loads C, and does not use it when beta is 0.
#include <cuda_runtime.h>
__global__ void sgemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
  int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row >= M || col >= N) return;
  float acc = 0.f;
  for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
  if (alpha == 1.f && beta == 0.f) {
    C[row * N + col] = acc;
  } else {
    float old = __ldcg(&C[row * N + col]);
    C[row * N + col] = beta == 0.f ? alpha * acc : alpha * acc + beta * old;
  }
}
void launch(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
  sgemm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(M, N, K, alpha, A, B, beta, C);
}
