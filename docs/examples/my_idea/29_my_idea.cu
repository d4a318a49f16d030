// 29 my_idea: load the next k-tile while this one is multiplied.
//
// Idea      In 03 shared_tile every thread waits for its loads before it multiplies. Issue the loads of
//           the next k-tile first, into registers, and store them to shared memory afterwards.
// Changed   From 03 shared_tile: two registers per thread hold the next k-tile.
// Owns      A block owns TILE x TILE outputs, one per thread:
//
//                  K              TILE
//             +---------+       +-----+
//        TILE | k-tiles | -->   |  C  | TILE
//             +---------+       +-----+
//
// Budget    2 * TILE^2 floats of shared memory: 8 KB for TILE = 32. One accumulator per thread.
// Needs     Nothing: outside the matrices the k-tiles are filled with zeros.
// Try next  Two buffers in shared memory, which saves one of the two barriers (11 async_copy).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int THREADS = TILE * TILE;

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc) {
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<TILE, TILE>(N);
    auto a = window(A, lda, M, K, tile.row, 0);
    auto b = window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const int m = threadIdx.x / TILE;
    const int n = threadIdx.x % TILE;

    float acc = 0.0f;
    float next_a = a.get_or_zero(m, n), next_b = b.get_or_zero(m, n);
    while (a.cols > 0) {
        a_tile[m][n] = next_a;
        b_tile[m][n] = next_b;
        __syncthreads();  // the k-tile is complete

        a.move_right(TILE);
        b.move_down(TILE);
        next_a = a.get_or_zero(m, n);
        next_b = b.get_or_zero(m, n);
#pragma unroll
        for (int k = 0; k < TILE; ++k) acc = __fmaf_rn(a_tile[m][k], b_tile[k][n], acc);
        __syncthreads();  // all threads have read it
    }
    if (c.inside(m, n)) store(c.at(m, n), acc, alpha, beta);
}
