// A race between blocks: the first part of K is added with block scope, the others with device scope.
#include <cuda_runtime.h>
__global__ void split_k(const float* A, const float* B, float* C, int M, int N, int K) {
  int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row >= M || col >= N) return;
  float acc = 0.f;
  for (int k = blockIdx.z; k < K; k += gridDim.z) acc += A[row * K + k] * B[k * N + col];
  if (blockIdx.z == 0) atomicAdd_block(&C[row * N + col], acc);
  else atomicAdd(&C[row * N + col], acc);
}
void launch(const float* A, const float* B, float* C, int M, int N, int K) {
  cudaMemset(C, 0, sizeof(float) * M * N);
  split_k<<<dim3((N + 15) / 16, (M + 15) / 16, 4), dim3(16, 16)>>>(A, B, C, M, N, K);
}
