#include <cuda_runtime.h>
#define CEIL_DIV(a, b) (((a) + (b)-1) / (b))

template <const int BM, const int BN, const int BK, const int TM>
__global__ void sgemm1DBlocktiling(int M, int N, int K, float alpha, const float *A,
                                   const float *B, float beta, float *C) {
  const uint cRow = blockIdx.y;
  const uint cCol = blockIdx.x;
  const int threadCol = threadIdx.x % BN;
  const int threadRow = threadIdx.x / BN;

  __shared__ float As[BM * BK];
  __shared__ float Bs[BK * BN];

  const uint innerColA = threadIdx.x % BK;
  const uint innerRowA = threadIdx.x / BK;
  const uint innerColB = threadIdx.x % BN;
  const uint innerRowB = threadIdx.x / BN;
  const uint aRow = cRow * BM + innerRowA;
  const uint bCol = cCol * BN + innerColB;

  float threadResults[TM] = {0.0f};
  for (uint bkIdx = 0; bkIdx < K; bkIdx += BK) {
    As[innerRowA * BK + innerColA] =
        aRow < M && bkIdx + innerColA < K ? A[(size_t)aRow * K + bkIdx + innerColA] : 0.0f;
    Bs[innerRowB * BN + innerColB] =
        bCol < N && bkIdx + innerRowB < K ? B[(size_t)(bkIdx + innerRowB) * N + bCol] : 0.0f;
    __syncthreads();
    __syncthreads();
    for (uint dotIdx = 0; dotIdx < BK; ++dotIdx) {
      float tmpB = Bs[dotIdx * BN + threadCol];
      for (uint resIdx = 0; resIdx < TM; ++resIdx) {
        threadResults[resIdx] += As[(threadRow * TM + resIdx) * BK + dotIdx] * tmpB;
      }
    }
    __syncthreads();
  }
  for (uint resIdx = 0; resIdx < TM; ++resIdx) {
    uint r = cRow * BM + threadRow * TM + resIdx;
    uint c = cCol * BN + threadCol;
    if (r < M && c < N) {
      float prior = beta != 0.0f ? beta * C[(size_t)r * N + c] : 0.0f;
      C[(size_t)r * N + c] = alpha * threadResults[resIdx] + prior;
    }
  }
}

void runSgemm1D(int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
  const uint BM = 64, BN = 64, BK = 8, TM = 8;
  dim3 gridDim(CEIL_DIV(N, BN), CEIL_DIV(M, BM));
  dim3 blockDim((BM * BN) / TM);
  sgemm1DBlocktiling<BM, BN, BK, TM><<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
}
