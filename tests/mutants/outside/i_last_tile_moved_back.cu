#include <cuda_runtime.h>
// The next k-tile is loaded early; after the last one, the last one again.
__global__ void ahead(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float as[16][16], bs[16][16];
  const int x = threadIdx.x, y = threadIdx.y, r = blockIdx.y * 16 + y, c = blockIdx.x * 16 + x;
  const int rr = min(r, M - 1), cc = min(c, N - 1);
  float sum = 0.f, a = A[rr * K + x], b = B[y * N + cc];
  for (int k0 = 0; k0 < K; k0 += 16) {
    as[y][x] = a; bs[y][x] = b;
    __syncthreads();
    const int next = min(k0 + 16, K - 16);
    a = A[rr * K + next + x]; b = B[(next + y) * N + cc];
    for (int k = 0; k < 16; k++) sum += as[y][k] * bs[k][x];
    __syncthreads();
  }
  if (r < M && c < N) C[r * N + c] = sum;
}
void go(const float* A, const float* B, float* C, int M, int N, int K) { ahead<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K); }
