#include <cuda_runtime.h>
#define TS 16

// C must be zero; gridDim.z parts of K
__global__ void sgemm_splitk(const float *A, const float *B, float *C, int M, int N, int K, float alpha) {
  __shared__ float a[TS][TS], b[TS][TS + 1];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int col = blockIdx.x * TS + tx, row = blockIdx.y * TS + ty;
  const int tiles = (K + TS - 1) / TS;
  const int per = (tiles + gridDim.z - 1) / gridDim.z;
  const int first = blockIdx.z * per;
  const int last = min(first + per, tiles);
  float s = 0.f;
  for (int t = first; t < last; ++t) {
    const int k0 = t * TS;
    a[ty][tx] = row < M && k0 + tx < last * TS ? A[row * K + k0 + tx] : 0.f;
    b[ty][tx] = col < N && k0 + ty < K ? B[(k0 + ty) * N + col] : 0.f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TS; ++k) s += a[ty][k] * b[k][tx];
    __syncthreads();
  }
  if (row < M && col < N) atomicAdd(&C[row * N + col], alpha * s);
}

void gemm_splitk(const float *A, const float *B, float *C, int M, int N, int K, float alpha) {
  cudaMemset(C, 0, sizeof(float) * M * N);
  dim3 grid((N + TS - 1) / TS, (M + TS - 1) / TS, 4);
  sgemm_splitk<<<grid, dim3(TS, TS)>>>(A, B, C, M, N, K, alpha);
}
