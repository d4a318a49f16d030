// Wrong at ragged M: A of a product begins after whole tiles
#include <cuda_runtime.h>
__global__ void batched(const float* A, const float* B, float* C, int batch, int M, int N, int K, float alpha, float beta) {
  int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y, b = blockIdx.z;
  if (row >= M || col >= N) return;
  float acc = 0.f;
  for (int k = 0; k < K; ++k) acc += A[(b * ((M + 15) / 16 * 16) + row) * K + k] * B[(b * K + k) * N + col];
  float old = beta == 0.f ? 0.f : C[(b * M + row) * N + col];
  C[(b * M + row) * N + col] = alpha * acc + beta * old;
}
void launch(const float* A, const float* B, float* C, int batch, int M, int N, int K, float alpha, float beta) {
  batched<<<dim3((N + 15) / 16, (M + 15) / 16, batch), dim3(16, 16)>>>(A, B, C, batch, M, N, K, alpha, beta);
}
