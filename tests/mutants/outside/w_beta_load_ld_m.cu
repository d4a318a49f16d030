#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;

// one warp per 16x16 tile of C, straight from global memory; extents are multiples of 16
__global__ void bf16_gemm(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int M, int N, int K,
                          float alpha, float beta) {
  int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
  int warpN = blockIdx.y * blockDim.y + threadIdx.y;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a_frag;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b_frag;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc_frag, c_frag;
  wmma::fill_fragment(acc_frag, 0.0f);
  int aRow = warpM * 16, bCol = warpN * 16;
  for (int i = 0; i < K; i += 16) {
    if (aRow < M && bCol < N) {
      wmma::load_matrix_sync(a_frag, a + aRow * K + i, K);
      wmma::load_matrix_sync(b_frag, b + i * N + bCol, N);
      wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
    }
  }
  if (aRow < M && bCol < N) {
    wmma::load_matrix_sync(c_frag, c + aRow * M + bCol, M, wmma::mem_row_major);
    for (int i = 0; i < c_frag.num_elements; i++)
      c_frag.x[i] = alpha * acc_frag.x[i] + (beta == 0.f ? 0.f : beta * c_frag.x[i]);
    wmma::store_matrix_sync(c + aRow * N + bCol, c_frag, N, wmma::mem_row_major);
  }
}

void gemm(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int M, int N, int K, float alpha, float beta) {
  dim3 blockDim(64, 2);
  dim3 gridDim((M + 31) / 32, (N + 31) / 32);
  bf16_gemm<<<gridDim, blockDim>>>(a, b, c, M, N, K, alpha, beta);
}
