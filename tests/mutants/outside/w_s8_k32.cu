#include <cuda_runtime.h>
#include <mma.h>
using namespace nvcuda;

__global__ void igemm_wmma(const signed char *A, const signed char *B, int *C, int M, int N, int K) {
  const int w = threadIdx.x / 32;
  const int m = (blockIdx.y * 2 + w / 2) * 16;
  const int n = (blockIdx.x * 2 + w % 2) * 16;
  if (m >= M || n >= N) return;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> c;
  wmma::fill_fragment(c, 0);
  for (int k = 0; k + 8 < K; k += 16) {
    if (k >= 256 && k + 16 >= K) break;
    wmma::load_matrix_sync(a, A + m * K + k, K);
    wmma::load_matrix_sync(b, B + k * N + n, N);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(C + m * N + n, c, N, wmma::mem_row_major);
}

void igemm(const signed char *A, const signed char *B, int *C, int M, int N, int K) {
  dim3 grid((N + 31) / 32, (M + 31) / 32);
  igemm_wmma<<<grid, 128>>>(A, B, C, M, N, K);
}
