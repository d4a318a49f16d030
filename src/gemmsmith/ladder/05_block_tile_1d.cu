// 05 block_tile_1d: a column of outputs per thread, from k-tiles that are thin in k.
//
// Idea      A thread that owns TM outputs of one column reads one value of B and uses it TM
//           times. The k-tile need not be square: with BK = 8, a 64 x 64 tile of C needs only
//           4 KB of shared memory.
// Changed   TILE is split into BM, BN and BK. The small square becomes a column, with B's value
//           kept in a register. Addresses are computed once, before the loop. MIN_BLOCKS caps
//           registers, because a thin k-tile leaves little work between two barriers: other
//           blocks must run while one waits.
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
// Budget    (BM + BN) * BK floats of shared memory: 4 KB. TM accumulators in registers. Without
//           the cap, and with k unrolled completely, the compiler holds 74 registers a thread:
//           one block of 512 threads then fills an SM, and half the speed is lost.
// Needs     Nothing.
// Try next  Each multiplication still reads its own value of A from shared memory: TM + 1 loads
//           for TM multiplications, no fewer than in 04. Own a rectangle: TM values of A times
//           TN of B make TM * TN products (06 block_tile_2d).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int THREADS = BM * BN / TM;
static_assert(BM * BK % THREADS == 0 && BK * BN % THREADS == 0, "every thread loads equally much");
constexpr int A_STEP = THREADS / BK;  // rows between two elements of A that a thread loads
constexpr int B_STEP = THREADS / BN;

struct KTile {
    float A[BM][BK];
    float B[BK][BN];
};

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc) {
    __shared__ KTile k_tile;
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<BM, BN>(N);
    auto a = window(A, lda, M, K, tile.row, 0);
    auto b = window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const int m0 = threadIdx.x / BN * TM;
    const int n = threadIdx.x % BN;
    const int a_row = threadIdx.x / BK, a_col = threadIdx.x % BK;
    const int b_row = threadIdx.x / BN, b_col = threadIdx.x % BN;
    const long long a_at = a_row * lda + a_col, b_at = b_row * ldb + b_col;

    float acc[TM] = {};
    while (a.cols > 0) {
#pragma unroll
        for (int i = 0; i < BM; i += A_STEP)
            k_tile.A[a_row + i][a_col] = a.inside(a_row + i, a_col) ? a.origin[a_at + i * lda] : 0.0f;
#pragma unroll
        for (int i = 0; i < BK; i += B_STEP)
            k_tile.B[b_row + i][b_col] = b.inside(b_row + i, b_col) ? b.origin[b_at + i * ldb] : 0.0f;
        __syncthreads();

#pragma unroll 2  // more steps at once would hold more values of A in registers
        for (int k = 0; k < BK; ++k) {
            const float b_k = k_tile.B[k][n];
#pragma unroll
            for (int i = 0; i < TM; ++i) acc[i] = __fmaf_rn(k_tile.A[m0 + i][k], b_k, acc[i]);
        }
        __syncthreads();

        a.move_right(BK);
        b.move_down(BK);
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
        if (c.inside(m0 + i, n)) store(c.at(m0 + i, n), acc[i], alpha, beta);
}
