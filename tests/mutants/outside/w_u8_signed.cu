#include <cuda_runtime.h>
#include <cstdint>

// uint8, both along K, tiles of 16x16 with 16 packed words of K
__global__ void gemm_u8(const uint8_t *A, const uint8_t *B, int *C, int M, int N, int K) {
  __shared__ unsigned sa[16][17], sb[16][17];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int m = blockIdx.y * 16 + ty, n = blockIdx.x * 16 + tx, nb = blockIdx.x * 16 + ty;
  const int words = (K + 3) / 4;
  unsigned acc = 0;
  auto packed = [&](const uint8_t *p, int row, int rows, int w) {
    unsigned v = 0;
    if (row < rows)
      for (int i = 0; i < 4; ++i)
        if (4 * w + i < K) v |= (unsigned)p[(size_t)row * K + 4 * w + i] << (8 * i);
    return v;
  };
  for (int w0 = 0; w0 < words; w0 += 16) {
    sa[ty][tx] = packed(A, m, M, w0 + tx);
    sb[ty][tx] = packed(B, nb, N, w0 + tx);
    __syncthreads();
    for (int w = 0; w < 16; ++w) acc = (unsigned)__dp4a((int)sa[ty][w], (int)sb[tx][w], (int)acc);
    __syncthreads();
  }
  if (m < M && n < N) C[(size_t)m * N + n] = (int)acc;
}

void run(const uint8_t *A, const uint8_t *B, int *C, int M, int N, int K) {
  gemm_u8<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
