#include <cuda_runtime.h>
// Rows of B and C by vectors where N is a multiple of 4, else column by column.
__global__ void tile32(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float as[8][32]; __shared__ __align__(16) float bs[8][32];
  const int t = threadIdx.x, tx = t % 8, ty = t / 8, row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
  const bool whole = (N & 3) == 0;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < K; k0 += 8) {
    for (int i = t; i < 256; i += 64) { int r = i / 8, k = i % 8; as[k][r] = row0 + r < M && k0 + k < K ? A[(row0 + r) * K + k0 + k] : 0.f; }
    const int bk = t / 8, bc = t % 8 * 4;
    if (whole) {
      float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
      if (k0 + bk < K && col0 + bc < N) v = *(const float4*)&B[(k0 + bk) * N + col0 + bc];
      *(float4*)&bs[bk][bc] = v;
    } else {
      for (int j = 0; j < 4; j++) bs[bk][bc + j] = k0 + bk < K && col0 + bc + j < N ? B[(k0 + bk) * N + col0 + bc + j] : 0.f;
    }
    __syncthreads();
    for (int k = 0; k < 8; k++) for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) sum[i][j] += as[k][ty * 4 + i] * bs[k][tx * 4 + j];
    __syncthreads();
  }
  for (int i = 0; i < 4; i++) {
    int r = row0 + ty * 4 + i, c = col0 + tx * 4;
    if (r >= M) break;
    if (whole) { if (c < N) *(float4*)&C[r * N + c] = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]); }
    else for (int j = 0; j < 4; j++) if (c + j < N) C[r * N + c + j] = sum[i][j ^ (j >> 1)];
  }
}
void go(const float* A, const float* B, float* C, int M, int N, int K) { tile32<<<dim3((N + 31) / 32, (M + 31) / 32), 64>>>(A, B, C, M, N, K); }
