// 02 coalesced: a warp walks along a row.
//
// Idea      A warp's 32 loads are served together. Give its threads neighbouring columns, and the
//           32 floats they read from B, or write to C, are 128 bytes in one piece.
// Changed   / and % change places in two lines. Nothing else.
// Owns      A block owns TILE x TILE outputs. Neighbouring threads of a warp walk along a row of
//           C:
//
//               col
//          +-----+-----+- -+-----+
//      row | t0  | t1  |   | t31 |    for one k the warp reads A[row][k], one address for all, and
//          +-----+-----+- -+-----+    B[k][col .. col+31]: 4 sectors of 32 bytes, all of them used.
//          | t32 | t33 |   | t63 |
//          +-----+-----+- -+-----+
//
// Budget    No shared memory. One accumulator; 32 registers with addresses, on sm_90.
// Needs     Nothing: any shape, leading dimension, alignment and all four layouts. (A transposed
//           B is read in strides again: which index must be the fast one depends on the layout.)
// Try next  Every element of A is still loaded N times and every one of B M times, if mostly from
//           cache: keep tiles of them in shared memory (03 shared_tile).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int THREADS = TILE * TILE;

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc) {
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<TILE, TILE>(N);
    const unsigned row = tile.row + threadIdx.x / TILE;  // unsigned: a tile at the edge may reach past 2^31
    const unsigned col = tile.col + threadIdx.x % TILE;
    if (row >= M || col >= N) return;

    float acc = 0.0f;
    for (int k = 0; k < K; ++k) {
        const float a = TRANS_A ? A[k * lda + row] : A[row * lda + k];
        const float b = TRANS_B ? B[col * ldb + k] : B[k * ldb + col];
        acc = __fmaf_rn(a, b, acc);
    }
    store(C + row * ldc + col, acc, alpha, beta);
}
