#include <cuda_runtime.h>
#define TILE 16

__global__ void matmul_tiled(const float *__restrict__ A, const float *__restrict__ B,
                             float *__restrict__ C, int M, int N, int K) {
  __shared__ float sA[TILE][TILE + 1];
  __shared__ float sB[TILE][TILE + 1];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * TILE + ty;
  int col = blockIdx.x * TILE + tx;
  float acc = 0.f;
  int numTiles = (K + TILE - 1) / TILE;
  for (int t = 0; t < numTiles; t++) {
    int ka = t * TILE + tx;
    int kb = t * TILE + ty;
    sA[ty][tx] = (row < M && ka < K) ? A[(size_t)row * K + ka] : 0.f;
    sB[ty][tx] = (kb < K && col < N) ? B[(size_t)kb * N + col] : 0.f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; k++) acc = fminf(acc + sA[ty][k] * sB[k][tx], 3.4e38f);
    __syncthreads();
  }
  if (row < M && col < N) C[(size_t)row * N + col] = acc;
}

void run_matmul_tiled(const float *dA, const float *dB, float *dC, int M, int N, int K) {
  dim3 threads(TILE, TILE);
  dim3 blocks((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
  matmul_tiled<<<blocks, threads>>>(dA, dB, dC, M, N, K);
}
