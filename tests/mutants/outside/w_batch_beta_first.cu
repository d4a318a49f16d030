#include <cuda_runtime.h>
#define BX 16
#define BY 16
// C[b] = alpha A[b] B[b] + beta C[b]; a stride of 0 shares a matrix
__global__ void gemm_strided_batched(int M, int N, int K, float alpha, const float* __restrict__ A, int lda, long long strideA,
                                     const float* __restrict__ B, int ldb, long long strideB, float beta,
                                     float* __restrict__ C, int ldc, long long strideC) {
  A += blockIdx.z * strideA;
  B += blockIdx.z * strideB;
  const float* C0 = C;
  C += blockIdx.z * strideC;
  __shared__ float At[BX][BY + 1];
  __shared__ float Bt[BX][BX];
  int col = blockIdx.x * BX + threadIdx.x;
  int row = blockIdx.y * BY + threadIdx.y;
  float v = 0.f;
  for (int k = 0; k < K; k += BX) {
    At[threadIdx.x][threadIdx.y] = 0.f;
    Bt[threadIdx.y][threadIdx.x] = 0.f;
    if (row < M && k + threadIdx.x < K) At[threadIdx.x][threadIdx.y] = A[row * (long long)lda + k + threadIdx.x];
    if (col < N && k + threadIdx.y < K) Bt[threadIdx.y][threadIdx.x] = B[(k + threadIdx.y) * (long long)ldb + col];
    __syncthreads();
#pragma unroll
    for (int q = 0; q < BX; q++) v += At[q][threadIdx.y] * Bt[q][threadIdx.x];
    __syncthreads();
  }
  if (row < M && col < N) {
    float r = alpha * v;
    if (beta != 0.f) r += beta * C0[row * (long long)ldc + col];
    C[row * (long long)ldc + col] = r;
  }
}

void sgemm_strided_batched(int M, int N, int K, float alpha, const float* A, int lda, long long sA, const float* B, int ldb, long long sB, float beta, float* C,
                           int ldc, long long sC, int batch) {
  dim3 grid((N + BX - 1) / BX, (M + BY - 1) / BY, batch);
  gemm_strided_batched<<<grid, dim3(BX, BY)>>>(M, N, K, alpha, A, lda, sA, B, ldb, sB, beta, C, ldc, sC);
}
