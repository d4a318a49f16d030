// 02 coalesced: a warp goes along a row.
//
// Idea      The hardware serves a warp's 32 loads together. If consecutive threads have consecutive
//           columns, the 32 floats they read from B, or write to C, are 128 contiguous bytes.
// Changed   / and % are swapped in two lines. Nothing else.
// Owns      A block owns TILE x TILE outputs. Consecutive threads of a warp go along a row of C:
//
//               col
//          +-----+-----+- -+-----+
//      row | t0  | t1  |   | t31 |    For one k, the warp reads A[row][k], one address for all, and
//          +-----+-----+- -+-----+    B[k][col .. col+31]: 4 sectors of 32 bytes, all of them used.
//          | t32 | t33 |   | t63 |
//          +-----+-----+- -+-----+
//
// Budget    No shared memory. One accumulator; 32 registers including addresses, on sm_90.
// Needs     Nothing: any shape, leading dimension and alignment, and all four layouts. (A transposed
//           B is again read with a stride: the best mapping of threads depends on the layout.)
// Try next  Each element of A is still loaded N times and each element of B M times, though mostly
//           from cache. Keep tiles of A and B in shared memory (03 shared_tile).

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
