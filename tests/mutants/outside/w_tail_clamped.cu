#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

#define BM 32
#define BN 64
#define BK 16

// four warps, 2 x 2; the result goes through shared memory so that edges can be guarded
__global__ void hgemm_wmma(const half *A, const half *B, float *C, int M, int N, int K) {
  __shared__ __align__(32) half sA[BM * BK];
  __shared__ __align__(32) half sB[BK * BN];
  __shared__ __align__(32) float sC[BM * BN];
  const int tid = threadIdx.x, warp = tid / 32;
  const int wm = warp / 2, wn = warp % 2;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc[2];
  wmma::fill_fragment(fc[0], 0.0f);
  wmma::fill_fragment(fc[1], 0.0f);

  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int i = tid; i < BM * BK; i += blockDim.x) {
      int r = i / BK, c = i % BK;
      sA[i] = (row0 + r < M) ? A[(row0 + r) * K + min(k0 + c, K - 1)] : __float2half(0.f);
    }
    for (int i = tid; i < BK * BN; i += blockDim.x) {
      int r = i / BN, c = i % BN;
      sB[i] = (k0 + r < K && col0 + c < N) ? B[(k0 + r) * N + col0 + c] : __float2half(0.f);
    }
    __syncthreads();
    wmma::load_matrix_sync(fa, sA + wm * 16 * BK, BK);
    for (int j = 0; j < 2; j++) {
      wmma::load_matrix_sync(fb, sB + wn * 32 + j * 16, BN);
      wmma::mma_sync(fc[j], fa, fb, fc[j]);
    }
    __syncthreads();
  }
  for (int j = 0; j < 2; j++)
    wmma::store_matrix_sync(sC + wm * 16 * BN + wn * 32 + j * 16, fc[j], BN, wmma::mem_row_major);
  __syncthreads();
  for (int i = tid; i < BM * BN; i += blockDim.x) {
    int r = row0 + i / BN, c = col0 + i % BN;
    if (r < M && c < N) C[r * N + c] = sC[i];
  }
}

void hgemm(const half *A, const half *B, float *C, int M, int N, int K) {
  dim3 grid((N + BN - 1) / BN, (M + BM - 1) / BM);
  hgemm_wmma<<<grid, 128>>>(A, B, C, M, N, K);
}
