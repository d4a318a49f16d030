#include <cuda_fp16.h>

// strided batches in half, float sums, one z per matrix, 32x32 tile with 2x2 per thread
__global__ void hgemm_batched(const __half *A, long long strideA, const __half *B, long long strideB, __half *C, long long strideC,
                              int M, int N, int K, float alpha, float beta) {
  __shared__ __half2 sa[32][9];
  __shared__ __half sb[16][34];
  A += blockIdx.z * strideA;
  B += blockIdx.z * strideB;
  C += blockIdx.z * strideC;
  const int x = threadIdx.x, y = threadIdx.y, tid = y * 16 + x;
  const int m0 = blockIdx.y * 32, n0 = blockIdx.x * 32;
  float acc[2][2] = {{0.f, 0.f}, {0.f, 0.f}};
  for (int k0 = 0; k0 < K; k0 += 16) {
    {
      const int r = tid / 8, p = tid % 8, k = k0 + 2 * p;
      __half lo = __float2half(0.f), hi = lo;
      if (m0 + r < M) {
        if (k < K) lo = A[(long long)(m0 + r) * K + k];
        if (k + 1 < K) hi = A[(long long)(m0 + r) * K + k + 1];
      }
      sa[r][p] = __halves2half2(lo, hi);
    }
    for (int i = tid; i < 512; i += 256) {
      const int r = i / 32, c = i % 32;
      sb[r][c] = k0 + r < K && n0 + c < N ? B[(long long)(k0 + r) * N + n0 + c] : __float2half(0.f);
    }
    __syncthreads();
    for (int p = 0; p < 8; ++p)
      for (int i = 0; i < 2; ++i) {
        const float2 a = __half22float2(sa[y + 16 * i][p]);
        for (int j = 0; j < 2; ++j) {
          acc[i][j] = fmaf(a.x, __half2float(sb[2 * p][x + 16 * j]), acc[i][j]);
          acc[i][j] = fmaf(a.y, __half2float(sb[2 * p + 1][x + 16 * j]), acc[i][j]);
        }
      }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      const int r = m0 + y + 16 * i, c = n0 + x + 16 * j;
      if (r >= M || c >= N) continue;
      const long long at = (long long)r * N + c;
      float v = alpha * acc[i][j];
      if (beta != 0.f) v += __half2float(__hmul(__float2half(beta), C[at]));
      C[at] = __float2half(v);
    }
}

void run(const __half *A, long long strideA, const __half *B, long long strideB, __half *C, long long strideC, int M, int N, int K,
         float alpha, float beta, int batch) {
  hgemm_batched<<<dim3((N + 31) / 32, (M + 31) / 32, batch), dim3(16, 16)>>>(A, strideA, B, strideB, C, strideC, M, N, K, alpha, beta);
}
