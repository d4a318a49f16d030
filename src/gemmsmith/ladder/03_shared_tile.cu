// 03 shared_tile: stage tiles in shared memory.
//
// Idea      The threads of a block need the same rows of A and columns of B. Load a square slice
//           of each once, together, and let all threads read it from shared memory: TILE times
//           fewer global loads.
// Changed   The loop over k became a loop over slices: load, wait for all, multiply, wait for
//           all.
// Owns      A block owns TILE x TILE outputs, one per thread, and slides two windows over A and
//           B:
//
//                              B  +-----+
//                                 |     | TILE   slides down
//                                 +-----+
//                       TILE      .  |  .
//              A      +-----+     +-----+
//           TILE      |     | --> |  C  | TILE
//                     +-----+     +-----+
//                slides right       TILE
//
// Budget    2 * TILE^2 floats of shared memory: 8 KB for TILE = 32. One accumulator per thread.
// Needs     Nothing: outside the matrices the slices are filled with zeros, in k for A and B
//           alike.
// Try next  Two shared loads feed each multiplication, so the shared-memory pipe is the limit.
//           Let a thread compute several outputs and use each loaded value more than once (04
//           register_block).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int THREADS = TILE * TILE;

struct Slice {
    float A[TILE][TILE];
    float B[TILE][TILE];
};

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc) {
    __shared__ Slice slice;
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<TILE, TILE>(N);
    auto a = window(A, lda, M, K, tile.row, 0);
    auto b = window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const int m = threadIdx.x / TILE;
    const int n = threadIdx.x % TILE;

    float acc = 0.0f;
    while (a.cols > 0) {
        slice.A[m][n] = a.get_or_zero(m, n);
        slice.B[m][n] = b.get_or_zero(m, n);
        __syncthreads();  // the slice is complete

#pragma unroll
        for (int k = 0; k < TILE; ++k) acc = __fmaf_rn(slice.A[m][k], slice.B[k][n], acc);
        __syncthreads();  // and read by all, before the next one replaces it

        a.move_right(TILE);
        b.move_down(TILE);
    }
    if (c.inside(m, n)) store(c.at(m, n), acc, alpha, beta);
}
