#include <cuda_runtime.h>

// rows of A are read four at a time; the tail of K is read one by one, N is guarded
__global__ void gemm_vec_k(const float *A, const float *Bt, float *C, int M, int N, int K, int lda, int ldb, int ldc) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= M || col >= N) return;
  const float *a = A + (size_t)row * lda, *b = Bt + (size_t)col * ldb;
  const bool aligned = (reinterpret_cast<size_t>(a) & 15) == 0;
  float s = 0.f;
  int k = 0;
  if (aligned) {
    for (; k <= K - 4; k += 4) {
      const float4 x = *reinterpret_cast<const float4 *>(a + k);
      const float4 y = *reinterpret_cast<const float4 *>(b + k);
      s = fmaf(x.x, y.x, s);
      s = fmaf(x.y, y.y, s);
      s = fmaf(x.z, y.z, s);
      s = fmaf(x.w, y.w, s);
    }
  }
  for (; k < K; ++k) s = fmaf(a[k], b[k], s);
  C[(size_t)row * ldc + col] = s;
}

void gemm(const float *A, const float *Bt, float *C, int M, int N, int K, int lda, int ldb, int ldc) {
  dim3 block(32, 4);
  dim3 grid((N + 31) / 32, (M + 3) / 4);
  gemm_vec_k<<<grid, block>>>(A, Bt, C, M, N, K, lda, ldb, ldc);
}
