#include <cuda_fp16.h>

// C (float) = alpha A B + beta C, tiles in dynamic shared memory, sizes as template parameters
template <int TM, int TN, int TK>
__global__ void hgemm_dyn(int M, int N, int K, float alpha, const __half *A, const __half *B, float beta, float *C) {
  extern __shared__ __align__(16) unsigned char raw[];
  __half *sa = reinterpret_cast<__half *>(raw);
  __half *sb = sa + TM * TK;
  const int tid = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
  const int m0 = blockIdx.y * TM, n0 = blockIdx.x * TN;
  float acc[2][2] = {};
  for (int k0 = 0; k0 < K; k0 += TK) {
    for (int i = tid; i < TM * TK; i += threads) {
      const int r = m0 + i / TK, c = k0 + i % TK;
      sa[i] = r < M && c < K ? A[(size_t)r * K + c] : __half(0.f);
    }
    for (int i = tid; i < TK * TN; i += threads) {
      const int r = k0 + i / TN, c = n0 + i % TN;
      sb[i] = r < K && c < N ? B[(size_t)r * N + c] : __half(0.f);
    }
    if (tid < 128) __syncthreads();
    for (int k = 0; k < TK; ++k)
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
          acc[i][j] += __half2float(sa[(2 * threadIdx.y + i) * TK + k]) * __half2float(sb[k * TN + 2 * threadIdx.x + j]);
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      const int r = m0 + 2 * threadIdx.y + i, c = n0 + 2 * threadIdx.x + j;
      if (r < M && c < N) {
        float v = alpha * acc[i][j];
        if (beta != 0.f) v += beta * C[(size_t)r * N + c];
        C[(size_t)r * N + c] = v;
      }
    }
}

void hgemm(int M, int N, int K, float alpha, const __half *A, const __half *B, float beta, float *C) {
  constexpr int TM = 32, TN = 32, TK = 24;
  dim3 grid((N + TN - 1) / TN, (M + TM - 1) / TM);
  hgemm_dyn<TM, TN, TK><<<grid, dim3(16, 16), (TM * TK + TK * TN) * sizeof(__half)>>>(M, N, K, alpha, A, B, beta, C);
}
