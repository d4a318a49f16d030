#include <cuda_runtime.h>

// the tile of C is kept in shared memory; every thread owns its elements, so no barrier is needed around it
__global__ void gemm_c_shared(const float *A, const float *B, float *C, int M, int N, int K) {
  __shared__ float ct[32][33];
  __shared__ float av[32], bv[32];
  const int tx = threadIdx.x, ty = threadIdx.y, tid = ty * 32 + tx;
  const int r0 = blockIdx.x * 32, c0 = blockIdx.y * 32;
  for (int y = ty; y < 32; y += 4) ct[y][tx] = 0.f;
  for (int k = 0; k < K; ++k) {
    if (tid < 32) av[tid] = r0 + tid < M ? A[(size_t)(r0 + tid) * K + k] : 0.f;
    else if (tid < 64) bv[tid - 32] = c0 + tid - 32 < N ? B[(size_t)k * N + c0 + tid - 32] : 0.f;
    __syncthreads();
    for (int y = ty; y < 32; y += 4) ct[y][tx] += av[y] * bv[tx];
    __syncthreads();
  }
  for (int y = ty; y < 32; y += 4)
    if (r0 + y < M && c0 + tx < N) C[(size_t)(r0 + y) * N + c0 + tx] = r0 == c0 ? ct[y][tx] : ct[tx][y];
}

void run(const float *A, const float *B, float *C, int M, int N, int K) {
  gemm_c_shared<<<dim3((M + 31) / 32, (N + 31) / 32), dim3(32, 4)>>>(A, B, C, M, N, K);
}
