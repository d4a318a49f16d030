// 06 block_tile_2d: outer products in registers.
//
// Idea      For each k, a thread loads TM values of A and TN of B and multiplies each with each: 8 + 8
//           loads for 64 multiplications. From here on arithmetic can be the limit instead of shared
//           memory. Then the guards at the matrix edges cost time, so blocks inside the matrix run
//           code without guards.
// Changed   The column became a rectangle, with its operands in registers. Loads and stores are
//           templates on Guarded; all threads of a block take the same branch.
// Owns      A block owns BM x BN outputs; a thread owns a TM x TN rectangle:
//
//                            B  +----------+
//                               |   |b|    | BK
//                               +----------+
//                      BK       .          .
//              A      +--+      +----------+
//                     |  |      |          |
//                 BM  |a |   m0 |   +-+    | BM      BN / TN threads across, BM / TM down
//                     |  |      |   +-+    |
//                     +--+      +----------+
//                                  n0  BN
//
// Budget    (BM + BN) * BK floats of shared memory: 4 KB. TM * TN + TM + TN values in registers: 80,
//           plus addresses. MIN_BLOCKS limits the registers so that this many blocks fit on an SM:
//           a thread gets 65,536 / (MIN_BLOCKS * THREADS), here 128.
// Needs     Nothing. BM * BK and BK * BN must be multiples of the number of threads.
// Try next  Move four floats per instruction, from global memory and from shared memory (07
//           vectorized).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int THREADS = BM * BN / (TM * TN);
static_assert(BM * BK % THREADS == 0 && BK * BN % THREADS == 0, "every thread loads the same amount");

struct KTile {
    float A[BM][BK];
    float B[BK][BN];
};

// Guarded: elements outside the matrices become zero. Otherwise the whole k-tile must be inside.
template <bool Guarded>
__device__ __forceinline__ void load_k_tile(KTile& k_tile, const Window<const float>& a, const Window<const float>& b) {
#pragma unroll
    for (int i = 0; i < BM * BK; i += THREADS) {
        const int m = (i + threadIdx.x) / BK;
        const int k = (i + threadIdx.x) % BK;
        k_tile.A[m][k] = Guarded ? a.get_or_zero(m, k) : *a.at(m, k);
    }
#pragma unroll
    for (int i = 0; i < BK * BN; i += THREADS) {
        const int k = (i + threadIdx.x) / BN;
        const int n = (i + threadIdx.x) % BN;
        k_tile.B[k][n] = Guarded ? b.get_or_zero(k, n) : *b.at(k, n);
    }
}

template <bool Guarded>
__device__ __forceinline__ void store_tile(const Window<float>& c, int m0, int n0, const float (&acc)[TM][TN],
                                           float alpha, float beta) {
#pragma unroll
    for (int i = 0; i < TM; ++i) store_row<Guarded>(c, m0 + i, n0, acc[i], alpha, beta);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc) {
    __shared__ KTile k_tile;
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<BM, BN>(N);
    auto a = window(A, lda, M, K, tile.row, 0);
    auto b = window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const int m0 = threadIdx.x / (BN / TN) * TM;
    const int n0 = threadIdx.x % (BN / TN) * TN;

    float acc[TM][TN] = {};
    while (a.cols > 0) {
        if (a.holds(BM, BK) && b.holds(BK, BN))
            load_k_tile<false>(k_tile, a, b);
        else
            load_k_tile<true>(k_tile, a, b);
        __syncthreads();

#pragma unroll 2  // the loads of one step overlap the arithmetic of the other; more steps need more registers
        for (int k = 0; k < BK; ++k) {
            float a_k[TM], b_k[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) a_k[i] = k_tile.A[m0 + i][k];
#pragma unroll
            for (int j = 0; j < TN; ++j) b_k[j] = k_tile.B[k][n0 + j];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] = __fmaf_rn(a_k[i], b_k[j], acc[i][j]);
        }
        __syncthreads();

        a.move_right(BK);
        b.move_down(BK);
    }
    if (c.holds(BM, BN))
        store_tile<false>(c, m0, n0, acc, alpha, beta);
    else
        store_tile<true>(c, m0, n0, acc, alpha, beta);
}
