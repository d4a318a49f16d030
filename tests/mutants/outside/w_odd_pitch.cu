#include <cuda_runtime.h>
#include <math.h>
// Each thread owns one column of the tile and eight rows of it.
constexpr int kRows = 64, kCols = 64, kDepth = 8, kPer = 8;

__global__ __launch_bounds__(512) void sgemm_col8(int M, int N, int K, float alpha, const float* __restrict__ A, int lda,
                           const float* __restrict__ B, int ldb, float beta, float* __restrict__ C, int ldc) {
  __shared__ float tileA[kRows * kDepth];
  __shared__ float tileB[kDepth * kCols];
  const int tid = threadIdx.x;
  const int row0 = blockIdx.y * kRows, col0 = blockIdx.x * kCols;
  const int ar = tid / kDepth, ac = tid % kDepth;
  const int br = tid / kCols, bc = tid % kCols;
  const int trow = tid / kCols, tcol = tid % kCols;
  float sum[kPer] = {};
  for (int k0 = 0; k0 < K; k0 += kDepth) {
    tileA[ar * kDepth + ac] = (row0 + ar < M && k0 + ac < K) ? A[(size_t)(row0 + ar) * lda + k0 + ac] : 0.0f;
    tileB[br * kCols + bc] = (k0 + br < K && col0 + bc < N) ? B[(size_t)(k0 + br) * ldb + col0 + bc] : 0.0f;
    __syncthreads();
    for (int d = 0; d < kDepth; ++d) {
      const float b = tileB[d * kCols + tcol];
      for (int i = 0; i < kPer; ++i) sum[i] += tileA[(trow * kPer + i) * kDepth + d] * b;
    }
    __syncthreads();
  }
  const int col = col0 + tcol;
  if (col >= N) return;
  for (int i = 0; i < kPer; ++i) {
    const int row = row0 + trow * kPer + i;
    if (row >= M) break;
    float* out = C + (size_t)row * (blockIdx.x ? N + (ldc - N) / 2 * 2 : ldc) + col;
    *out = beta == 0.0f ? alpha * sum[i] : alpha * sum[i] + beta * *out;
  }
}

void run_sgemm(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C, int ldc,
               cudaStream_t stream) {
  dim3 grid((N + kCols - 1) / kCols, (M + kRows - 1) / kRows);
  sgemm_col8<<<grid, 512, 0, stream>>>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
