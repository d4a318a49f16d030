#include <cuda_runtime.h>

// 64x64 tiles of 8, A transposed into shared memory with a rotated column, float4 reads, prefetch in registers; sizes multiples of the tile
__global__ void __launch_bounds__(256) sgemm_v(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
  __shared__ float4 as[8][16], bs[8][16];
  float *asf = reinterpret_cast<float *>(as);
  const int t = threadIdx.x, tr = t / 16, tc = t % 16;
  const float *a = A + (size_t)blockIdx.y * 64 * K, *b = B + blockIdx.x * 64;
  float *c = C + (size_t)blockIdx.y * 64 * N + blockIdx.x * 64;
  const int ar = t / 4, ak = t % 4 * 2, bk = t / 32, bc = t % 32 * 2;
  auto spot = [](int k, int r) { return k * 64 + ((r / 4 + k) % 16) * 4 + r % 4; };
  float acc[4][4] = {};
  float2 ra = *reinterpret_cast<const float2 *>(a + (size_t)ar * K + ak);
  float2 rb = *reinterpret_cast<const float2 *>(b + (size_t)bk * N + bc);
  for (int k0 = 0; k0 < K; k0 += 8) {
    asf[spot(ak, ar)] = ra.x;
    asf[spot(ak + 1, ar)] = ra.y;
    reinterpret_cast<float2 *>(bs)[t] = rb;
    asm volatile("bar.sync %0, 128;" ::"r"(1 + t / 128));
    if (k0 + 8 < K) {
      ra = *reinterpret_cast<const float2 *>(a + (size_t)ar * K + k0 + 8 + ak);
      rb = *reinterpret_cast<const float2 *>(b + (size_t)(k0 + 8 + bk) * N + bc);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float4 u = as[k][(tr + k) % 16], v = bs[k][tc];
      const float fu[4] = {u.x, u.y, u.z, u.w}, fv[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[i][j] += fu[i] * fv[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      float *p = c + (size_t)(tr * 4 + i) * N + tc * 4 + j;
      *p = alpha * acc[i][j] + beta * *p;
    }
}

void sgemm(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
  sgemm_v<<<dim3(N / 64, M / 64), 256>>>(M, N, K, alpha, A, B, beta, C);
}
