#include <cuda_runtime.h>

__global__ void sgemm_strided_batched(int m, int n, int k, const float *A, int lda, long long strideA,
                                      const float *B, int ldb, long long strideB,
                                      float *C, int ldc, long long strideC) {
  __shared__ float sA[8][33];
  __shared__ float sB[8][32];
  const float *a = A + blockIdx.z * strideA;
  const float *b = B + (long long)blockIdx.z * k * ldb;
  float *c = C + blockIdx.z * strideC;
  const int tid = threadIdx.x;
  const int m0 = blockIdx.y * 32, n0 = blockIdx.x * 32;
  const int i = tid / 32, j = tid % 32;        // i: 0..7
  float r[4] = {0.f, 0.f, 0.f, 0.f};
  for (int k0 = 0; k0 < k; k0 += 8) {
    const int am = tid / 8, ak = tid % 8;
    sA[ak][am] = (m0 + am < m && k0 + ak < k) ? a[(long long)(m0 + am) * lda + k0 + ak] : 0.f;
    sB[i][j] = (k0 + i < k && n0 + j < n) ? b[(long long)(k0 + i) * ldb + n0 + j] : 0.f;
    __syncthreads();
#pragma unroll
    for (int p = 0; p < 8; ++p)
#pragma unroll
      for (int q = 0; q < 4; ++q) r[q] += sA[p][i + 8 * q] * sB[p][j];
    __syncthreads();
  }
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    const int row = m0 + i + 8 * q;
    if (row < m && n0 + j < n) c[(long long)row * ldc + n0 + j] = r[q];
  }
}

void batched(int m, int n, int k, const float *A, int lda, long long strideA, const float *B, int ldb,
             long long strideB, float *C, int ldc, long long strideC, int batch) {
  dim3 grid((n + 31) / 32, (m + 31) / 32, batch);
  sgemm_strided_batched<<<grid, 256>>>(m, n, k, A, lda, strideA, B, ldb, strideB, C, ldc, strideC);
}
