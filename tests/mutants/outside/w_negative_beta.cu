#include <cuda_runtime.h>
#include <stdint.h>

// int8 with dp4a; B is stored N x K so that both run along K; K is a multiple of 4
__global__ void gemm_dp4a(const int8_t *A, const int8_t *B, int32_t *C, int M, int N, int K, int alpha, int beta) {
  const int n = blockIdx.x * 16 + threadIdx.x;
  const int m = blockIdx.y * 16 + threadIdx.y;
  if (m >= M || n >= N) return;
  const int *a = reinterpret_cast<const int *>(A + (size_t)m * K);
  const int *b = reinterpret_cast<const int *>(B + (size_t)n * K);
  int acc = 0;
  for (int k = 0; k < K / 4; ++k) acc = __dp4a(a[k], b[k], acc);
  int32_t *c = C + (size_t)m * N + n;
  *c = alpha * acc + (beta > 0 ? beta * *c : 0);
}

void igemm(const int8_t *A, const int8_t *B, int32_t *C, int M, int N, int K, int alpha, int beta) {
  dim3 grid((N + 15) / 16, (M + 15) / 16);
  gemm_dp4a<<<grid, dim3(16, 16)>>>(A, B, C, M, N, K, alpha, beta);
}
