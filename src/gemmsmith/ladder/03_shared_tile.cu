// 03 shared_tile: tiles in shared memory.
//
// Idea      The threads of a block need the same rows of A and columns of B. They load a square
//           k-tile of each once, together, and all read it from shared memory: TILE times fewer
//           global loads.
// Changed   The loop over k became a loop over k-tiles: load, barrier, multiply, barrier.
// Owns      A block owns TILE x TILE outputs, one per thread. Its two windows move over A and B:
//
//                              B  +-----+
//                                 |     | TILE   moves down
//                                 +-----+
//                       TILE      .  |  .
//              A      +-----+     +-----+
//           TILE      |     | --> |  C  | TILE
//                     +-----+     +-----+
//                 moves right       TILE
//
// Budget    2 * TILE^2 floats of shared memory: 8 KB for TILE = 32. One accumulator per thread.
// Needs     Nothing: k-tiles are filled with zeros outside A and B, in k as well.
// Try next  Each multiplication needs two shared loads, so shared memory is the limit. Let a thread
//           compute several outputs and use each loaded value more than once (04 register_block).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int THREADS = TILE * TILE;

struct KTile {
    float A[TILE][TILE];
    float B[TILE][TILE];
};

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc) {
    __shared__ KTile k_tile;
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<TILE, TILE>(N);
    auto a = window(A, lda, M, K, tile.row, 0);
    auto b = window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const int m = threadIdx.x / TILE;
    const int n = threadIdx.x % TILE;

    float acc = 0.0f;
    while (a.cols > 0) {
        k_tile.A[m][n] = a.get_or_zero(m, n);
        k_tile.B[m][n] = b.get_or_zero(m, n);
        __syncthreads();  // the k-tile is complete

#pragma unroll
        for (int k = 0; k < TILE; ++k) acc = __fmaf_rn(k_tile.A[m][k], k_tile.B[k][n], acc);
        __syncthreads();  // all threads have read it: it may be overwritten

        a.move_right(TILE);
        b.move_down(TILE);
    }
    if (c.inside(m, n)) store(c.at(m, n), acc, alpha, beta);
}
