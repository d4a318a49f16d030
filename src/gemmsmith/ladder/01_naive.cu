// 01 naive: one thread, one output.
//
// Idea      The definition, as code: C[row][col] is the dot product of a row of A and a column of
//           B. Each thread computes one output.
// Changed   Nothing: this is the baseline of the ladder.
// Owns      A block owns TILE x TILE outputs. Consecutive threads of a warp go down a column of C:
//
//          col
//     +-----+-----+- -
// row | t0  | t32 |          For one k, the warp's 32 threads read A[row .. row+31][k], which are
//     | t1  | t33 |          lda floats apart: 32 sectors of 32 bytes are fetched for 128 bytes used.
//     | ... | ... |          B[k][col] is the same address for all of them.
//     | t31 | t63 |
//     +-----+-----+- -
//
// Budget    No shared memory. One accumulator; 32 registers including addresses, on sm_90.
// Needs     Nothing: any shape, leading dimension and alignment, and all four layouts.
// Try next  Let a warp go along a row instead: swap / and % (02 coalesced).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int THREADS = TILE * TILE;

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc) {
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<TILE, TILE>(N);
    const unsigned row = tile.row + threadIdx.x % TILE;  // unsigned: a tile at the edge may reach past 2^31
    const unsigned col = tile.col + threadIdx.x / TILE;
    if (row >= M || col >= N) return;

    float acc = 0.0f;
    for (int k = 0; k < K; ++k) {
        const float a = TRANS_A ? A[k * lda + row] : A[row * lda + k];
        const float b = TRANS_B ? B[col * ldb + k] : B[k * ldb + col];
        acc = __fmaf_rn(a, b, acc);
    }
    store(C + row * ldc + col, acc, alpha, beta);
}
