#include <cuda_runtime.h>

// blocks of one tile (gridDim.z parts of K) add into C one at a time, under a lock
__device__ void acquire(int *lock) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
  }
  __syncthreads();
}
__device__ void release(int *lock) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicExch(lock, 0);
}

__global__ void gemm_locked(const float *A, const float *B, float *C, int M, int N, int K, int *locks) {
  const int m0 = blockIdx.y * 16, n0 = blockIdx.x * 16;
  const int part = (K + gridDim.z - 1) / gridDim.z;
  const int k0 = blockIdx.z * part, k1 = k0 + part;
  const int r = m0 + threadIdx.x / 16, c = n0 + threadIdx.x % 16;
  float acc = 0.f;
  if (r < M && c < N)
    for (int k = k0; k < k1; ++k) acc += A[(size_t)r * K + k] * B[(size_t)k * N + c];
  int *lock = locks + blockIdx.y * gridDim.x + blockIdx.x;
  acquire(lock);
  volatile float *cell = C + (size_t)r * N + c;
  if (r < M && c < N) *cell = *cell + acc;
  release(lock);
}

void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
  dim3 grid((N + 15) / 16, (M + 15) / 16, 3);
  int *locks;
  cudaMalloc(&locks, sizeof(int) * grid.x * grid.y);
  cudaMemset(locks, 0, sizeof(int) * grid.x * grid.y);
  cudaMemset(C, 0, sizeof(float) * M * N);
  gemm_locked<<<grid, 256>>>(A, B, C, M, N, K, locks);
  cudaFree(locks);
}
