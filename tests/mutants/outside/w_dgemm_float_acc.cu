#include <cuda_runtime.h>
#include <mma.h>
using namespace nvcuda::wmma;

// double precision tensor cores; extents are multiples of 8
__global__ void dgemm_wmma(int m, int n, int k, double alpha, const double *A, const double *B, double beta, double *C) {
  const int warp = threadIdx.x / 32;
  const int i = (blockIdx.y * 4 + warp) * 8, j = blockIdx.x * 8;
  if (i >= m) return;
  fragment<matrix_a, 8, 8, 4, double, row_major> fa;
  fragment<matrix_b, 8, 8, 4, double, row_major> fb;
  fragment<accumulator, 8, 8, 4, double> acc, c;
  fill_fragment(acc, 0.0);
  for (int p = 0; p < k; p += 4) {
    load_matrix_sync(fa, A + (size_t)i * k + p, k);
    load_matrix_sync(fb, B + (size_t)p * n + j, n);
    mma_sync(acc, fa, fb, acc);
  }
  double *out = C + (size_t)i * n + j;
  if (beta != 0.0) {
    load_matrix_sync(c, out, n, mem_row_major);
    for (int t = 0; t < acc.num_elements; ++t) acc.x[t] = alpha * acc.x[t] + beta * c.x[t];
  } else {
    for (int t = 0; t < acc.num_elements; ++t) acc.x[t] = (float)(acc.x[t] * alpha);
  }
  store_matrix_sync(out, acc, n, mem_row_major);
}

void dgemm(int m, int n, int k, double alpha, const double *A, const double *B, double beta, double *C) {
  dgemm_wmma<<<dim3(n / 8, (m / 8 + 3) / 4), 128>>>(m, n, k, alpha, A, B, beta, C);
}
