// 09 rectangular: the shape of the thread tile, and k unrolled by hand.
//
// Idea      A TM x TN thread tile reads TM + TN values for TM * TN multiplications, and holds TM * TN
//           accumulators. 4 x 4 is limited by loads, 8 x 8 by registers; 8 x 4 is between them. Also,
//           A need not be transposed: when k advances by 4, one float4 *along k* for each of the TM
//           rows is as few loads, and needs no scattered stores.
// Changed   k_tile.A is [m][k] again and is read along k, UNROLL steps of k per iteration. A thread's
//           rows are BM / TM apart, so that a warp reads adjacent rows, and PAD puts these in different
//           banks. Large k-tiles exceed the 48 KB that a kernel can declare, so shared memory is
//           dynamic from here on.
// Owns      A block owns BM x BN outputs; a thread owns TM rows of TN / 4 groups of four columns:
//
//                              k_tile.B +--------------------+
//                                       |  [b_k]       [b_k] |  k .. k+3
//                  k_tile.A             +--------------------+
//                 +---------+   thread  +--------------------+
//                 | [a    ] |           |  ####        ####  |   ty
//                 |         |           |                    |
//                 | [a    ] |           |  ####        ####  |   ty + BM / TM
//                 +---------+           +--------------------+
//                   k .. k+3             4 tx      4 (tx + BN / TN)
//
// Budget    BM * (BK + PAD) + BK * BN floats of shared memory: 33,792 B for 64 x 64 x 64. TM * TN
//           accumulators and TM * 4 + TN operands: 68 values for 8 x 4. While a k-tile is loaded,
//           another 16 float4 are in flight.
// Needs     Nothing. Vectors are used where A, B and C start on 16 bytes and lda, ldb, ldc are
//           multiples of 4. Elsewhere, and at the edges, single elements are moved.
// Try next  A level between block and thread (10 warp_tile); loads that overlap the arithmetic (11
//           async_copy).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int ACROSS = BN / TN;  // threads along a row of the tile
constexpr int DOWN = BM / TM;    // and along a column
constexpr int THREADS = ACROSS * DOWN;
constexpr int VEC = 4;
constexpr int K_VEC = UNROLL < 4 ? UNROLL : 4;  // steps of k for which A is read by one load
static_assert(BM * BK % (THREADS * VEC) == 0 && BK * BN % (THREADS * VEC) == 0, "every thread loads the same amount");

struct KTile {
    alignas(16) float A[BM][BK + PAD];
    alignas(16) float B[BK][BN];
};

// Guarded: elements outside the matrices become zero. Otherwise the whole k-tile must be inside and aligned.
template <bool Guarded>
__device__ __forceinline__ void load_k_tile(KTile& k_tile, const Window<const float>& a, const Window<const float>& b) {
#pragma unroll
    for (int i = 0; i < BM * BK; i += THREADS * VEC) {
        const int m = (i + threadIdx.x * VEC) / BK;
        const int k = (i + threadIdx.x * VEC) % BK;
        *reinterpret_cast<Vec<float, VEC>*>(&k_tile.A[m][k]) = load_vector<Guarded, VEC>(a, m, k);
    }
#pragma unroll
    for (int i = 0; i < BK * BN; i += THREADS * VEC) {
        const int k = (i + threadIdx.x * VEC) / BN;
        const int n = (i + threadIdx.x * VEC) % BN;
        *reinterpret_cast<Vec<float, VEC>*>(&k_tile.B[k][n]) = load_vector<Guarded, VEC>(b, k, n);
    }
}

template <bool Guarded>
__device__ __forceinline__ void store_tile(const Window<float>& c, int tx, int ty, const float (&acc)[TM][TN / 4][4],
                                           float alpha, float beta) {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int g = 0; g < TN / 4; ++g)
            store_vectors<Guarded, 4>(c, ty + i * DOWN, (tx + g * ACROSS) * 4, acc[i][g], alpha, beta);
}

// acc += k_tile.A * k_tile.B: this thread's outputs, k ascending.
__device__ __forceinline__ void multiply(const KTile& k_tile, int tx, int ty, float (&acc)[TM][TN / 4][4]) {
#pragma unroll 1
    for (int k0 = 0; k0 < BK; k0 += UNROLL) {
#pragma unroll
        for (int k = k0; k < k0 + UNROLL; k += K_VEC) {
            float a[TM][K_VEC];
#pragma unroll
            for (int i = 0; i < TM; ++i) load_fragment<K_VEC>(a[i], &k_tile.A[ty + i * DOWN][k]);
#pragma unroll
            for (int kk = 0; kk < K_VEC; ++kk) {
#pragma unroll
                for (int g = 0; g < TN / 4; ++g) {
                    float b_k[4];
                    load_fragment<4>(b_k, &k_tile.B[k + kk][(tx + g * ACROSS) * 4]);
#pragma unroll
                    for (int i = 0; i < TM; ++i)
#pragma unroll
                        for (int j = 0; j < 4; ++j) acc[i][g][j] = __fmaf_rn(a[i][kk], b_k[j], acc[i][g][j]);
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc) {
    extern __shared__ KTile k_tiles[];
    KTile& k_tile = k_tiles[0];
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<BM, BN>(N);
    auto a = window(A, lda, M, K, tile.row, 0);
    auto b = window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const bool aligned = vectors_fit<VEC>(A, lda) && vectors_fit<VEC>(B, ldb);
    const int tx = threadIdx.x % ACROSS;
    const int ty = threadIdx.x / ACROSS;

    float acc[TM][TN / 4][4] = {};
    while (a.cols > 0) {
        if (aligned && a.holds(BM, BK) && b.holds(BK, BN))
            load_k_tile<false>(k_tile, a, b);
        else
            load_k_tile<true>(k_tile, a, b);
        __syncthreads();

        multiply(k_tile, tx, ty, acc);
        __syncthreads();

        a.move_right(BK);
        b.move_down(BK);
    }
    if (vectors_fit<VEC>(C, ldc) && c.holds(BM, BN))
        store_tile<false>(c, tx, ty, acc, alpha, beta);
    else
        store_tile<true>(c, tx, ty, acc, alpha, beta);
}
