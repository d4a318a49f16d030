#include <cuda_runtime.h>
// 16-byte loads along K; host code asks for multiples of 8.
__global__ void vec_k(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ __align__(16) float as[16][32]; __shared__ float bs[32][16];
  const int t = threadIdx.x, row0 = blockIdx.y * 16, col0 = blockIdx.x * 16, y = t / 16, x = t % 16;
  float s0 = 0.f, s1 = 0.f;
  for (int k0 = 0; k0 < K; k0 += 32) {
    const int r = t / 8, k = t % 8 * 4;
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (row0 + r < M && k0 + k < K) v = *(const float4*)&A[(row0 + r) * K + k0 + k];
    *(float4*)&as[r][k] = v;
    for (int i = t; i < 512; i += 128) { int kk = i / 16, c = i % 16; bs[kk][c] = k0 + (kk | 15) < K && col0 + c < N ? B[(k0 + kk) * N + col0 + c] : 0.f; }
    __syncthreads();
    for (int kk = 0; kk < 32; kk++) { s0 += as[y][kk] * bs[kk][x]; s1 += as[y + 8][kk] * bs[kk][x]; }
    __syncthreads();
  }
  if (col0 + x < N && row0 + y < M) C[(row0 + y) * N + col0 + x] = s0;
  if (col0 + x < N && row0 + y + 8 < M) C[(row0 + y + 8) * N + col0 + x] = s1;
}
void go(const float* A, const float* B, float* C, int M, int N, int K) {
  if (K % 8 != 0) return;
  vec_k<<<dim3((N + 15) / 16, (M + 15) / 16), 128>>>(A, B, C, M, N, K);
}
