#include <cuda_runtime.h>

// eight warps split K inside the block and reduce through shared memory
__global__ void gemm_slice_k(const float *A, const float *B, float *C, int M, int N, int K) {
  __shared__ float part[8][4][33];
  const int lane = threadIdx.x, w = threadIdx.y;
  const int col = blockIdx.x * 32 + lane, row0 = blockIdx.y * 4;
  float acc[4] = {};
  for (int k = w; k < K; k += 8) {
    const float b = col < N ? B[(size_t)k * N + col] : 0.f;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (row0 + i < M) acc[i] = -fmaf(-A[(size_t)(row0 + i) * K + k], b, -acc[i]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) part[w][i][lane] = acc[i];
  __syncthreads();
  for (int step = 4; step > 0; step >>= 1) {
    if (w < step)
      for (int i = 0; i < 4; ++i) part[w][i][lane] += part[w + step][i][lane];
    __syncthreads();
  }
  if (w < 4 && row0 + w < M && col < N) C[(size_t)(row0 + w) * N + col] = part[0][w][lane];
}

void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
  gemm_slice_k<<<dim3((N + 31) / 32, (M + 3) / 4), dim3(32, 8)>>>(A, B, C, M, N, K);
}
