#include <cuda_runtime.h>

// every warp has its own tile in shared memory: __syncwarp is enough
__global__ void gemm_warp_tiles(const float *A, const float *B, float *C, int M, int N, int K) {
  __shared__ float sa[4][8][33];
  __shared__ float sb[4][32][9];
  const int lane = threadIdx.x % 32, w = threadIdx.x / 32;
  const int m0 = (blockIdx.y * 4 + w) * 8, n0 = blockIdx.x * 8;
  if (m0 >= M) return;
  const int r = lane / 8, c = lane % 8;
  float acc0 = 0.f, acc1 = 0.f;
  for (int k0 = 0; k0 < K; k0 += 32) {
    for (int i = 0; i < 8; ++i)
      sa[w][i][lane] = m0 + i < M && k0 + lane < K ? A[(size_t)(m0 + i) * K + k0 + lane] : 0.f;
    for (int i = 0; i < 8; ++i)
      sb[w][lane][i] = k0 + lane < K && n0 + i <= N ? B[(size_t)(k0 + lane) * N + n0 + i] : 0.f;
    __syncwarp();
    for (int k = 0; k < 32; ++k) {
      acc0 += sa[w][r][k] * sb[w][k][c];
      acc1 += sa[w][r + 4][k] * sb[w][k][c];
    }
    __syncwarp();
  }
  if (m0 + r < M && n0 + c < N) C[(size_t)(m0 + r) * N + n0 + c] = acc0;
  if (m0 + r + 4 < M && n0 + c < N) C[(size_t)(m0 + r + 4) * N + n0 + c] = acc1;
}

void run(const float *A, const float *B, float *C, int M, int N, int K) {
  gemm_warp_tiles<<<dim3((N + 7) / 8, (M + 31) / 32), 128>>>(A, B, C, M, N, K);
}
