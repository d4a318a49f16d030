#include <cuda_runtime.h>

// 64x64 tile, 256 threads, 4x4 each; A transposed in shared memory with an xor on the column
constexpr int BM = 64, BN = 64, BK = 8;
__device__ __forceinline__ int sw(int k, int m) { return k * BM + (m ^ ((k & 3) << 3)); }

__global__ __launch_bounds__(256) void sgemm_xor(int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                                                 float beta, float *c, int ldc) {
  __shared__ float as[BK * BM];
  __shared__ float bs[BK][BN];
  const int t = threadIdx.x, tx = t & 15, ty = t >> 4;
  const int row0 = blockIdx.x * BM, col0 = blockIdx.y * BN;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += BK) {
    for (int i = t; i < BM * BK; i += 256) {
      const int kk = i % BK, mm = i / BK;
      as[sw(kk, mm)] = row0 + mm < m && k0 + kk < k ? a[size_t(row0 + mm) * lda + k0 + kk] : 0.f;
    }
    for (int i = t; i < BK * BN; i += 256) {
      const int kk = i / BN, nn = i % BN;
      bs[kk][nn] = k0 + kk < k && col0 + nn < n ? b[size_t(k0 + kk) * ldb + col0 + nn] : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < BK; ++kk) {
      float fa[4], fb[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) fa[i] = as[sw(kk, ty + 16 * i)];
#pragma unroll
      for (int j = 0; j < 4; ++j) fb[j] = bs[kk][tx + 16 * j];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[i][j] += fa[i] * fb[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int r = row0 + ty + 16 * i, q = col0 + tx + 16 * j;
      if (r < m && q < n) {
        float *p = c + size_t(r) * ldc + q;
        *p = beta == 0.f ? acc[i][j] : acc[i][j] + beta * beta * *p;
      }
    }
}

void sgemm(int m, int n, int k, const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc) {
  dim3 grid((m + BM - 1) / BM, (n + BN - 1) / BN);
  sgemm_xor<<<grid, 256>>>(m, n, k, a, lda, b, ldb, beta, c, ldc);
}
