#include <cuda_runtime.h>
#include <mma.h>
using namespace nvcuda;

// TF32, B is stored transposed (N x K): y = x * W^T as in a linear layer
__global__ void linear_tf32(const float *x, const float *w, float *y, int M, int N, int K) {
  const int tileN = blockIdx.x, tileM = blockIdx.y;
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fx;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fw;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> fy;
  wmma::fill_fragment(fy, 0.f);
  for (int k = 0; k < K; k += 8) {
    wmma::load_matrix_sync(fx, x + (size_t)tileM * 16 * K + k, K);
    wmma::load_matrix_sync(fw, w + (size_t)tileN * 16 * K + k, K);
    for (int t = 0; t < fx.num_elements; t++) fx.x[t] = wmma::__float_to_tf32(fx.x[t]);
    for (int t = 0; t < fw.num_elements; t++) fw.x[t] = wmma::__float_to_tf32(fw.x[t]);
    wmma::mma_sync(fy, fx, fw, fy);
  }
  wmma::store_matrix_sync(y + (size_t)tileM * 16 * N + tileN * 16, fy, N, wmma::mem_row_major);
}

void linear(const float *x, const float *w, float *y, int M, int N, int K) {
  linear_tf32<<<dim3(N / 16, M / 16), 32>>>(x, w, y, M, N, K);
}
