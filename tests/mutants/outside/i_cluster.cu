#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// two blocks of a cluster share the tile of B: each loads half of it, both read all of it
constexpr int BM = 16, BN = 32, BK = 16;

__global__ void __cluster_dims__(1, 2, 1) gemm_cluster(const float *A, const float *B, float *C, int M, int N, int K) {
  __shared__ float as[BM][BK];
  __shared__ float bs[BK / 2][BN];
  cg::cluster_group cluster = cg::this_cluster();
  const int rank = (int)cluster.block_rank();
  const float(*lo)[BN] = reinterpret_cast<const float(*)[BN]>(cluster.map_shared_rank(&bs[0][0], 0));
  const float(*hi)[BN] = reinterpret_cast<const float(*)[BN]>(cluster.map_shared_rank(&bs[0][0], 1));
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  const int tid = threadIdx.x;                      // 256
  const int r = tid / BN, c = tid % BN;             // r: 0..7, rows r and r + 8
  float acc0 = 0.f, acc1 = 0.f;
  for (int k0 = 0; k0 < K; k0 += BK) {
    const int am = tid / BK, ak = tid % BK;
    as[am][ak] = m0 + am < M && k0 + ak < K ? A[(size_t)(m0 + am) * K + k0 + ak] : 0.f;
    const int kb = k0 + rank * (BK / 2) + r;
    bs[r][c] = kb < K && n0 + c < N ? B[(size_t)kb * N + n0 + c] : 0.f;
    cluster.sync();
    for (int k = 0; k < BK; ++k) {
      const float b = k < BK / 2 ? lo[k][c] : hi[k - BK / 2][c];
      acc0 += as[r][k] * b;
      acc1 += as[r + 8][k] * b;
    }
    cluster.sync();
  }
  if (m0 + r < M && n0 + c < N) C[(size_t)(m0 + r) * N + n0 + c] = acc0;
  if (m0 + r + 8 < M && n0 + c < N) C[(size_t)(m0 + r + 8) * N + n0 + c] = acc1;
}

void run(const float *A, const float *B, float *C, int M, int N, int K) {
  dim3 grid((N + BN - 1) / BN, (M + 2 * BM - 1) / (2 * BM) * 2);
  gemm_cluster<<<grid, 256>>>(A, B, C, M, N, K);
}
