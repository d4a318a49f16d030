// Right: whole tiles test beta first; at edges C is loaded, and not used when beta is 0.
#include <cuda_runtime.h>
__global__ void sgemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
  int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  bool whole = blockIdx.x * 16 + 16 <= N && blockIdx.y * 16 + 16 <= M;
  float acc = 0.f;
  if (row < M && col < N)
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
  if (whole) {
    if (beta == 0.f) C[row * N + col] = alpha * acc;
    else C[row * N + col] = alpha * acc + beta * C[row * N + col];
  } else if (row < M && col < N) {
    float old = __ldcg(&C[row * N + col]);
    C[row * N + col] = beta == 0.f ? alpha * acc : alpha * acc + beta * old;
  }
}
void launch(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
  sgemm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(M, N, K, alpha, A, B, beta, C);
}
