#include <cuda_runtime.h>

// double precision, K divided over grid.z, partial sums added with atomicAdd; the host clears C first
__global__ void dgemm_split(const double *A, const double *B, double *C, int M, int N, int K, double alpha) {
  __shared__ double ta[8][17], tb[8][16];
  const int x = threadIdx.x, y = threadIdx.y;
  const int r = blockIdx.y * 16 + y, c = blockIdx.x * 16 + x;
  const int chunk = ((K + gridDim.z - 1) / gridDim.z + 7) / 8 * 8;
  const int begin = blockIdx.z * chunk, end = min(K, begin + chunk);
  if (begin >= end) return;
  double s = 0.0;
  for (int k = begin; k < end; k += 8) {
    if (x < 8) ta[x][y] = r < M && k + x < end ? A[(size_t)r * K + k + x] : 0.0;
    if (y < 8) tb[y][x] = c < N && k + y < end ? B[(size_t)(k + y) * N + c] : 0.0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) s = fma(ta[i][y], tb[i][x], s);
    __syncthreads();
  }
  if (r < M && c < N) atomicAdd(&C[(size_t)r * N + c], (double)(float)alpha * s);
}

void run(const double *A, const double *B, double *C, int M, int N, int K, double alpha) {
  cudaMemset(C, 0, sizeof(double) * M * N);
  dgemm_split<<<dim3((N + 15) / 16, (M + 15) / 16, 3), dim3(16, 16)>>>(A, B, C, M, N, K, alpha);
}
