// 12 warp_tile_mixed: 16-bit inputs, 32-bit arithmetic.
//
// Idea      fp16 and bf16 halve the bytes of A and B in global memory, in shared memory, and on the
//           way between. Accumulators stay fp32: values are widened in registers, after the last load,
//           which is exact.
// Changed   From 10: A, B and the k-tiles have type IN (__half or __nv_bfloat16). A global load moves 8
//           elements instead of 4, and load_fragment converts.
// Owns      As 10: a block owns BM x BN outputs, a warp WM x WN of them, a thread TM x TN in each
//           subtile:
//
// block 128 x 128            warp 64 x 64, WNITER = 4          one lane, one k
// +-------+-------+          +----+----+----+----+
// | warp0 | warp1 |          |    |    |    |    |             k_tile.A  hhhh hhhh  -> 8 floats
// +-------+-------+          |    |    |    |    |             k_tile.B  hhhh       -> 4 floats, WNITER times
// | warp2 | warp3 |          |    |    |    |    |             acc       fp32 += fp32 * fp32
// +-------+-------+          +----+----+----+----+
//
// Budget    (BM + PAD + BN) * BK elements of 2 bytes of shared memory: 8,320 B. Registers as 10, plus
//           24 conversions per 128 multiplications.
// Needs     Nothing. Vectors are used where A, B and C start on 16 bytes, lda and ldb are multiples of 8
//           and ldc is a multiple of 4. Elsewhere, and at the edges, single elements are moved.
// Try next  CUDA cores still multiply in fp32: bytes were saved, not time. Tensor cores multiply 16-bit
//           inputs directly, about ten times as fast (13 wmma).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"
#include "tile/half_to_float.cuh"

constexpr int WMITER = WM * WN / (32 * TM * TN * WNITER);
constexpr int SUB_M = WM / WMITER;
constexpr int SUB_N = WN / WNITER;
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
constexpr int VEC = 8;  // elements of 2 bytes: 16-byte loads
static_assert((SUB_M / TM) * (SUB_N / TN) == 32, "a subtile of the warp tile has work for 32 lanes");
static_assert(BM * BK % (THREADS * VEC) == 0 && BK * BN % (THREADS * VEC) == 0, "every thread loads the same amount");

struct KTile {
    alignas(16) IN A[BK][BM + PAD];  // transposed
    alignas(16) IN B[BK][BN];
};

// Guarded: elements outside the matrices become zero. Otherwise the whole k-tile must be inside and aligned.
template <bool Guarded>
__device__ __forceinline__ void load_k_tile(KTile& k_tile, const Window<const IN>& a, const Window<const IN>& b) {
#pragma unroll
    for (int i = 0; i < BM * BK; i += THREADS * VEC) {
        const int m = (i + threadIdx.x * VEC) / BK;
        const int k = (i + threadIdx.x * VEC) % BK;
        const auto values = load_vector<Guarded, VEC>(a, m, k);
#pragma unroll
        for (int j = 0; j < VEC; ++j) k_tile.A[k + j][m] = values.at[j];
    }
#pragma unroll
    for (int i = 0; i < BK * BN; i += THREADS * VEC) {
        const int k = (i + threadIdx.x * VEC) / BN;
        const int n = (i + threadIdx.x * VEC) % BN;
        *reinterpret_cast<Vec<IN, VEC>*>(&k_tile.B[k][n]) = load_vector<Guarded, VEC>(b, k, n);
    }
}

using Accumulators = float[WMITER][TM][WNITER][TN];

template <bool Guarded>
__device__ __forceinline__ void store_tile(const Window<float>& c, int m0, int n0, const Accumulators& acc,
                                           float alpha, float beta) {
#pragma unroll
    for (int u = 0; u < WMITER; ++u)
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int v = 0; v < WNITER; ++v)
                store_vectors<Guarded, 4>(c, m0 + u * SUB_M + i, n0 + v * SUB_N, acc[u][i][v], alpha, beta);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const IN* __restrict__ A, long long lda,
     const IN* __restrict__ B, long long ldb, float beta, float* C, long long ldc) {
    extern __shared__ KTile k_tiles[];
    KTile& k_tile = k_tiles[0];
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<BM, BN>(N);
    auto a = window(A, lda, M, K, tile.row, 0);
    auto b = window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const bool aligned = vectors_fit<VEC>(A, lda) && vectors_fit<VEC>(B, ldb);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int m0 = warp / (BN / WN) * WM + lane / (SUB_N / TN) * TM;
    const int n0 = warp % (BN / WN) * WN + lane % (SUB_N / TN) * TN;

    Accumulators acc = {};
    while (a.cols > 0) {
        if (aligned && a.holds(BM, BK) && b.holds(BK, BN))
            load_k_tile<false>(k_tile, a, b);
        else
            load_k_tile<true>(k_tile, a, b);
        __syncthreads();

#pragma unroll UNROLL
        for (int k = 0; k < BK; ++k) {
            float a_k[WMITER][TM], b_k[WNITER][TN];
#pragma unroll
            for (int u = 0; u < WMITER; ++u) load_fragment<4>(a_k[u], &k_tile.A[k][m0 + u * SUB_M]);
#pragma unroll
            for (int v = 0; v < WNITER; ++v) load_fragment<4>(b_k[v], &k_tile.B[k][n0 + v * SUB_N]);
#pragma unroll
            for (int u = 0; u < WMITER; ++u)
#pragma unroll
                for (int i = 0; i < TM; ++i)
#pragma unroll
                    for (int v = 0; v < WNITER; ++v)
#pragma unroll
                        for (int j = 0; j < TN; ++j)
                            acc[u][i][v][j] = __fmaf_rn(a_k[u][i], b_k[v][j], acc[u][i][v][j]);
        }
        __syncthreads();

        a.move_right(BK);
        b.move_down(BK);
    }
    if (vectors_fit<4>(C, ldc) && c.holds(BM, BN))
        store_tile<false>(c, m0, n0, acc, alpha, beta);
    else
        store_tile<true>(c, m0, n0, acc, alpha, beta);
}
