#include <cuda_runtime.h>

// few columns: a warp per row of C, lanes along K, float4 where rows are aligned, butterfly sums at the end
__global__ void gemm_skinny(const float *A, const float *Bt, float *C, int M, int N, int K) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= M) return;
  const float *a = A + (size_t)row * K;
  for (int col = blockIdx.y; col < N; col += gridDim.y) {
    const float *b = Bt + (size_t)col * K;
    float s = 0.f;
    int k = 0;
    if (K % 4 == 0) {
      for (k = lane * 4; k < K; k += 128) {
        const float4 u = *reinterpret_cast<const float4 *>(a + k), v = *reinterpret_cast<const float4 *>(b + k);
        s += u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w;
      }
    } else {
      for (k = lane; k < K; k += 32) s += a[k] * b[k];
    }
    if (lane >= 16 + N) return;
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
    if (lane == 0) C[(size_t)row * N + col] = s;
  }
}

void run(const float *A, const float *Bt, float *C, int M, int N, int K) {
  gemm_skinny<<<dim3((M + 3) / 4, 8), 128>>>(A, Bt, C, M, N, K);
}
