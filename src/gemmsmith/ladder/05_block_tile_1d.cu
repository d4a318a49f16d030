// 05 block_tile_1d: a column of outputs per thread, from a slice that is thin in k.
//
// Idea      A thread that owns TM outputs of one column reads one value of B and uses it TM
//           times. And the slice need not be square: BK = 8 columns of k let a 64 x 64 tile of C
//           do with 4 KB of shared memory.
// Changed   TILE split into BM, BN and BK; the little square became a column, with B's value kept
//           in a register.
// Owns      A block owns BM x BN outputs; a thread owns TM of them, one below the other:
//
//                            B  +----------+
//                               | .        | BK
//                               +----------+
//                      BK       .          .
//              A      +--+      +----------+
//                     |  |   m0 | |t0|     |
//                 BM  |  |      | |t0|     | BM      BN threads across, BM / TM down
//                     |  |      | |..|     |
//                     +--+      +----------+
//                                 n  BN
//
// Budget    (BM + BN) * BK floats of shared memory: 4 KB. TM + 1 values in registers next to the
//           addresses.
// Needs     Nothing.
// Try next  A's values are still read afresh for every output. Own a rectangle: TM values of A
//           times TN of B make TM * TN products (06 block_tile_2d).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int THREADS = BM * BN / TM;
static_assert(BM * BK % THREADS == 0 && BK * BN % THREADS == 0, "every thread loads equally much");

struct Slice {
    float A[BM][BK];
    float B[BK][BN];
};

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc) {
    __shared__ Slice slice;
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<BM, BN>(N);
    auto a = window(A, lda, M, K, tile.row, 0);
    auto b = window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const int m0 = threadIdx.x / BN * TM;
    const int n = threadIdx.x % BN;

    float acc[TM] = {};
    while (a.cols > 0) {
#pragma unroll
        for (int i = threadIdx.x, end = i + BM * BK; i < end; i += THREADS)
            slice.A[i / BK][i % BK] = a.get_or_zero(i / BK, i % BK);
#pragma unroll
        for (int i = threadIdx.x, end = i + BK * BN; i < end; i += THREADS)
            slice.B[i / BN][i % BN] = b.get_or_zero(i / BN, i % BN);
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; ++k) {
            const float b_k = slice.B[k][n];
#pragma unroll
            for (int i = 0; i < TM; ++i) acc[i] = __fmaf_rn(slice.A[m0 + i][k], b_k, acc[i]);
        }
        __syncthreads();

        a.move_right(BK);
        b.move_down(BK);
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
        if (c.inside(m0 + i, n)) store(c.at(m0 + i, n), acc[i], alpha, beta);
}
