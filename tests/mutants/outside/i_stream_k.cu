#include <cuda_runtime.h>

// stream-K: every block takes an equal share of all k-tiles of all tiles; shares of a tile meet by atomics
constexpr int T = 16;

__global__ void gemm_stream_k(const float *A, const float *B, float *C, int M, int N, int K) {
  __shared__ float sa[T][T + 1], sb[T][T + 1];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int tn = (N + T - 1) / T, tm = (M + T - 1) / T, tk = (K + T - 1) / T;
  const long long all = (long long)tm * tn * tk;
  const long long per = (all + gridDim.x - 1) / gridDim.x;
  long long it = blockIdx.x * per;
  const long long end = min(it + per, all);
  while (it < end) {
    const int tile = (int)(it / tk);
    const int first = (int)(it % tk);
    const int count = (int)min((long long)(tk - first), end - it);
    const int row = tile / tn * T + ty, col = tile % tn * T + tx;
    float acc = 0.f;
    for (int i = 0; i < count; ++i) {
      const int k0 = (first + i) * T;
      sa[ty][tx] = row < M && k0 + tx < K ? A[(size_t)row * K + k0 + tx] : 0.f;
      sb[ty][tx] = col < N && k0 + ty < K ? B[(size_t)(k0 + ty) * N + col] : 0.f;
      __syncthreads();
      for (int k = 0; k < T; ++k) acc += sa[ty][k] * sb[k][tx];
      __syncthreads();
    }
    if (row < M && col < N) {
      if (count == tk) C[(size_t)row * N + col] += acc;
      else atomicAdd(C + (size_t)row * N + col, acc);
    }
    it += count;
  }
}

void run(const float *A, const float *B, float *C, int M, int N, int K) {
  cudaMemset(C, 0, sizeof(float) * M * N);
  gemm_stream_k<<<12, dim3(T, T)>>>(A, B, C, M, N, K);
}
