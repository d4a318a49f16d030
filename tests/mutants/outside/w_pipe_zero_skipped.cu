#include <cuda_runtime.h>
#include <cuda_pipeline.h>

// four stages through __pipeline_memcpy_async, one float at a time, zeros at the edges
constexpr int T = 16, STAGES = 4;

__global__ void gemm_pipe(const float *A, const float *B, float *C, int M, int N, int K) {
  __shared__ float As[STAGES][T][T];
  __shared__ float Bs[STAGES][T][T];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
  const int tiles = (K + T - 1) / T;
  auto fetch = [&](int t) {
    if (t < tiles) {
      const int s = t % STAGES, ka = t * T + tx, kb = t * T + ty;
      if (row < M && ka < K) __pipeline_memcpy_async(&As[s][ty][tx], A + (size_t)row * K + ka, 4);
      else As[s][ty][tx] = 0.f;
      if (col < N && kb < K) __pipeline_memcpy_async(&Bs[s][ty][tx], B + (size_t)kb * N + col, 4);
      
    }
    __pipeline_commit();
  };
  for (int t = 0; t < STAGES - 1; ++t) fetch(t);
  float acc = 0.f;
  for (int t = 0; t < tiles; ++t) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    fetch(t + STAGES - 1);
    const int s = t % STAGES;
#pragma unroll
    for (int k = 0; k < T; ++k) acc += As[s][ty][k] * Bs[s][k][tx];
  }
  if (row < M && col < N) C[(size_t)row * N + col] = acc;
}

void run(const float *A, const float *B, float *C, int M, int N, int K) {
  gemm_pipe<<<dim3((N + T - 1) / T, (M + T - 1) / T), dim3(T, T)>>>(A, B, C, M, N, K);
}
