#include <cuda_runtime.h>
// Column-major as in BLAS: A is M x K with leading dimension lda, and so on.
#define IDX(i, j, ld) ((i) + (size_t)(j) * (ld))
template <int NB>
__global__ void dgemm_nn(int m, int n, int k, double alpha, const double* A, int lda, const double* B, int ldb, double beta, double* C, int ldc) {
  __shared__ double sA[NB][NB + 1], sB[NB][NB + 1];
  const int i = blockIdx.x * NB + threadIdx.x, j = blockIdx.y * NB + threadIdx.y;
  double s = 0.0;
  for (int p = 0; p < k; p += NB) {
    sA[threadIdx.y][threadIdx.x] = i < m && p + threadIdx.y < k ? A[IDX(i, p + threadIdx.y, lda)] : 0.0;
    sB[threadIdx.y][threadIdx.x] = p + threadIdx.x < k && j < n ? B[IDX(p + threadIdx.x, j, ldb)] : 0.0;
    __syncthreads();
    for (int q = 0; q < NB; ++q) s += sA[q][threadIdx.x] * sB[threadIdx.y][q];
    __syncthreads();
  }
  if (i < m && j < n) {
    double& c = C[IDX(i, j, ldc)];
    if (beta == 0.0 && alpha != 1.0)
      c = alpha * s;
    else
      c = alpha * s + beta * c;
  }
}

void dgemm(int m, int n, int k, double alpha, const double* A, int lda, const double* B, int ldb, double beta, double* C, int ldc) {
  const int NB = 16;
  dim3 threads(NB, NB), blocks((m + NB - 1) / NB, (n + NB - 1) / NB);
  dgemm_nn<NB><<<blocks, threads>>>(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}
