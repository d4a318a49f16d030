#include <cuda_runtime.h>
#define A(i, j) A[(i) + (size_t)(j) * lda]
#define B(i, j) B[(i) + (size_t)(j) * ldb]
#define C(i, j) C[(i) + (size_t)(j) * ldc]

// BLAS order: C = alpha * A * B^T + beta * C, B is N x K
__global__ void sgemm_nt(int M, int N, int K, float alpha, const float *A, int lda, const float *B, int ldb,
                         float beta, float *C, int ldc) {
  __shared__ float sa[16][17];
  __shared__ float sb[16][17];
  int i = blockIdx.x * 16 + threadIdx.x;
  int j = blockIdx.y * 16 + threadIdx.y;
  int jn = blockIdx.y * 16 + threadIdx.x;
  float acc = 0.f;
  for (int p = 0; p < K; p += 16) {
    int kk = p + threadIdx.y;
    if (kk < K) {
      sa[threadIdx.y][threadIdx.x] = i < M ? A(i, kk) : 0.f;
      sb[threadIdx.y][threadIdx.x] = jn < N ? B(jn, kk) : 0.f;
      __syncthreads();
    } else {
      sa[threadIdx.y][threadIdx.x] = 0.f;
      sb[threadIdx.y][threadIdx.x] = 0.f;
    }
    for (int q = 0; q < 16; q++) acc += sa[q][threadIdx.x] * sb[q][threadIdx.y];
    __syncthreads();
  }
  if (i < M && j < N) {
    if (beta == 0.f)
      C(i, j) = alpha * acc;
    else
      C(i, j) = alpha * acc + beta * C(i, j);
  }
}

void sgemm(int M, int N, int K, float alpha, const float *dA, int lda, const float *dB, int ldb, float beta,
           float *dC, int ldc) {
  dim3 block(16, 16);
  dim3 grid((M + 15) / 16, (N + 15) / 16);
  sgemm_nt<<<grid, block>>>(M, N, K, alpha, dA, lda, dB, ldb, beta, dC, ldc);
}
