#include <cuda_fp16.h>

// two columns per thread; N is even
__global__ void hgemm_half2(const __half *A, const __half *B, __half *C, int M, int N, int K) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = (blockIdx.x * blockDim.x + threadIdx.x) * 2;
  if (row >= M || col >= N) return;
  float2 acc = make_float2(0.f, 0.f);
  for (int k = 0; k < K; ++k) {
    const float a = __half2float(A[row * K + k]);
    const float2 b = __half22float2(*reinterpret_cast<const __half2 *>(&B[k * N + col]));
    acc.x += a * b.x;
    acc.y += a * b.y;
    if ((k & 255) == 255) acc = __half22float2(__float22half2_rn(acc));
  }
  *reinterpret_cast<__half2 *>(&C[row * N + col]) = __float22half2_rn(acc);
}

void hgemm(const __half *A, const __half *B, __half *C, int M, int N, int K) {
  dim3 block(16, 16);
  dim3 grid((N / 2 + 15) / 16, (M + 15) / 16);
  hgemm_half2<<<grid, block>>>(A, B, C, M, N, K);
}
