#include <cuda_bf16.h>

// bf16 inputs, float output; 128 threads work, a fifth warp leaves at once
__global__ void gemm_bf16_simt(const __nv_bfloat16 *A, const __nv_bfloat16 *B, float *C, int M, int N, int K, float alpha, float beta) {
  __shared__ float sa[16][33], sb[16][32];
  if (threadIdx.x >= 128) return;
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  const int m0 = blockIdx.y * 32, n0 = blockIdx.x * 32;
  float acc[4][2] = {};
  for (int k0 = 0; k0 < K; k0 += 16) {
    for (int i = t; i < 512; i += 128) {
      const int r = i / 16, k = i % 16;
      sa[k][r] = m0 + r < M && k0 + k < K ? __bfloat162float(A[(size_t)(m0 + r) * K + k0 + k]) : 0.f;
    }
    for (int i = t; i < 512; i += 128) {
      const int k = i / 32, c = i % 32;
      sb[k][c] = n0 + c < N && k0 + k < K ? __bfloat162float(B[(size_t)(k0 + k) * N + n0 + c]) : 0.f;
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < 16; ++k)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j) acc[i][j] += sa[k][ty + 8 * i] * sb[k][tx + 16 * j];
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 2; ++j) {
      const int r = m0 + ty + 8 * i, c = n0 + tx + 16 * j;
      if (r < M && c < N) {
        const size_t at = (size_t)r * N + c;
        C[at] = beta == 0.f ? alpha * acc[i][j] : fmaf(beta, C[at], alpha * acc[i][j]);
      }
    }
}

void run(const __nv_bfloat16 *A, const __nv_bfloat16 *B, float *C, int M, int N, int K, float alpha, float beta) {
  gemm_bf16_simt<<<dim3((N + 31) / 32, (M + 31) / 32), 160>>>(A, B, C, M, N, K, alpha, beta);
}
