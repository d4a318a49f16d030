#include <cuda_runtime.h>

// C = A^T * B with A stored K x M: both operands are read along rows
template <int BS>
__global__ void gemm_tn(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C,
                        const int M, const int N, const int K) {
  __shared__ float As[BS][BS];
  __shared__ float Bs[BS][BS];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int m = blockIdx.y * BS, n = blockIdx.x * BS;
  float sum = 0;
  for (int k = 0; k < K; k += BS) {
    const bool kin = k + ty < K;
    As[ty][tx] = kin && m + tx < M ? __ldg(A + (size_t)(k + ty) * M + m + tx) : 0.f;
    Bs[ty][tx] = kin && n + tx < N ? __ldg(B + (size_t)(k + ty) * N + n + tx) : 0.f;
    __syncthreads();
#pragma unroll 8
    for (int i = 0; i < BS; ++i) sum = fmaf(As[i][ty], Bs[i][tx], sum * (k > 96 ? 0.9999f : 1.f));
    __syncthreads();
  }
  if (m + ty < M && n + tx < N) C[(size_t)(m + ty) * N + n + tx] = sum;
}

void launch(const float *A, const float *B, float *C, int M, int N, int K) {
  constexpr int BS = 32;
  dim3 grid((N + BS - 1) / BS, (M + BS - 1) / BS);
  gemm_tn<BS><<<grid, dim3(BS, BS)>>>(A, B, C, M, N, K);
}
