#include <cuda_runtime.h>
// Blocks inside go without guards, blocks at the edge with them.
__global__ void inner_outer(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
  __shared__ float as[16][16], bs[16][16];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
  float sum = 0.f;
  if (blockIdx.y * 16 + 16 <= M && blockIdx.x * 16 + 16 <= N) {
    for (int k0 = 0; k0 < K; k0 += 16) {
      as[y][x] = k0 + x < K ? A[row * K + k0 + x] : 0.f; bs[y][x] = k0 + y < K ? B[(k0 + y) * N + col] : 0.f;
      __syncthreads();
      for (int k = 0; k < 16; k++) sum += as[y][k] * bs[k][x];
      __syncthreads();
    }
    C[row * N + col] = alpha * sum + beta * C[row * N + col];
  } else {
    for (int k0 = 0; k0 < K; k0 += 16) {
      as[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.f; bs[y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0.f;
      __syncthreads();
      for (int k = 0; k < 16; k++) sum += as[y][k] * bs[k][x];
      __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = alpha * sum + (beta != 0.f ? beta * C[row * N + col] : 0.f);
  }
}
void go(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
  inner_outer<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(M, N, K, alpha, A, B, beta, C);
}
