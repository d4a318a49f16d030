#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
// Tensor cores; tiles at the edge go through shared memory.
__global__ void tc(const half* A, const half* B, float* C, int M, int N, int K) {
  __shared__ __align__(32) half as[16 * 16], bs[16 * 16]; __shared__ __align__(32) float cs[16 * 16];
  const int lane = threadIdx.x, m0 = blockIdx.y * 16, n0 = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; wmma::fill_fragment(c, 0.f);
  const bool inner = m0 + 16 <= M && n0 + 16 <= N && K % 16 == 0 && N % 8 == 0;
  for (int k0 = 0; k0 < K; k0 += 16) {
    if (inner) { wmma::load_matrix_sync(a, A + m0 * K + k0, K); wmma::load_matrix_sync(b, B + k0 * N + n0, N); }
    else {
      for (int i = lane; i < 256; i += 32) {
        int r = i / 16, x = i % 16;
        as[i] = m0 + r < M && k0 + x < K ? A[(m0 + r) * K + k0 + x] : __float2half(0.f);
        bs[i] = k0 + r < K && n0 + x < N ? B[(k0 + r) * N + n0 + x] : __float2half(0.f);
      }
      __syncwarp();
      wmma::load_matrix_sync(a, as, 16); wmma::load_matrix_sync(b, bs, 16);
      __syncwarp();
    }
    wmma::mma_sync(c, a, b, c);
  }
  if (inner) wmma::store_matrix_sync(C + m0 * N + n0, c, N, wmma::mem_row_major);
  else {
    wmma::store_matrix_sync(cs, c, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32) if (m0 + i / 16 < M && n0 + i % 16 < N) C[(m0 + i / 16) * N + n0 + i % 16] = cs[i % 16 * 16 + i / 16];
  }
}
void go(const half* A, const half* B, float* C, int M, int N, int K) { tc<<<dim3((N + 15) / 16, (M + 15) / 16), 32>>>(A, B, C, M, N, K); }
