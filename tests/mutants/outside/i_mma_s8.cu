#include <cuda_runtime.h>
#include <cstdint>

// int8 tensor cores by inline PTX: each warp one 16x8 tile, A row-major, B given as N rows of K (NT)
__device__ __forceinline__ void mma16832(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ unsigned four(const int8_t *p, int row, int rows, int k, int K) {
  unsigned v = 0;
  if (row < rows)
    for (int i = 0; i < 4; ++i)
      if (k + i < K) v |= (unsigned)(uint8_t)p[(size_t)row * K + k + i] << (8 * i);
  return v;
}

__global__ void gemm_s8_mma(const int8_t *A, const int8_t *B, int32_t *C, int M, int N, int K) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int g = lane / 4, q = lane % 4;
  const int m0 = blockIdx.y * 64 + warp * 16, n0 = blockIdx.x * 8;
  int acc[4] = {0, 0, 0, 0};
  for (int k0 = 0; k0 < K; k0 += 32) {
    unsigned a[4], b[2];
    a[0] = four(A, m0 + g, M, k0 + q * 4, K);
    a[1] = four(A, m0 + g + 8, M, k0 + q * 4, K);
    a[2] = four(A, m0 + g, M, k0 + 16 + q * 4, K);
    a[3] = four(A, m0 + g + 8, M, k0 + 16 + q * 4, K);
    b[0] = four(B, n0 + g, N, k0 + q * 4, K);
    b[1] = four(B, n0 + g, N, k0 + 16 + q * 4, K);
    mma16832(acc, a, b);
  }
  for (int i = 0; i < 4; ++i) {
    const int r = m0 + g + (i / 2) * 8, c = n0 + q * 2 + i % 2;
    if (r < M && c < N) C[(size_t)r * N + c] = acc[i];
  }
}

void launch(const int8_t *A, const int8_t *B, int32_t *C, int M, int N, int K) {
  gemm_s8_mma<<<dim3((N + 7) / 8, (M + 63) / 64), 128>>>(A, B, C, M, N, K);
}
