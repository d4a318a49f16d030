// 04 register_block: several outputs per thread.
//
// Idea      A thread that owns SIDE x SIDE outputs loads SIDE values of A and SIDE of B for SIDE^2
//           multiplications. With 2 x 2 that is one shared load per multiplication instead of two.
// Changed   acc became a small square, and a thread loads SIDE^2 elements of each k-tile.
// Owns      A block owns TILE x TILE outputs; a thread owns SIDE x SIDE adjacent ones (here 2 x 2):
//
//                    n0
//               +---------+---------+- -
//            m0 | t0   t0 | t1   t1 |
//               | t0   t0 | t1   t1 |        TILE / SIDE threads across, and as many down
//               +---------+---------+- -
//               | t16 t16 | t17 t17 |
//
// Budget    2 * TILE^2 floats of shared memory: 8 KB for TILE = 32. SIDE^2 accumulators: 4.
// Needs     Nothing.
// Try next  More outputs per thread, and k-tiles that are thin in k, so that a large tile of C needs
//           little shared memory (05 block_tile_1d).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int ACROSS = TILE / SIDE;  // threads along a row of the tile
constexpr int THREADS = ACROSS * ACROSS;

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
    const int m0 = threadIdx.x / ACROSS * SIDE;
    const int n0 = threadIdx.x % ACROSS * SIDE;

    float acc[SIDE][SIDE] = {};
    while (a.cols > 0) {
#pragma unroll
        for (int i = 0; i < TILE * TILE; i += THREADS) {
            const int row = (i + threadIdx.x) / TILE;
            const int col = (i + threadIdx.x) % TILE;  // adjacent threads load adjacent elements, whatever they compute
            k_tile.A[row][col] = a.get_or_zero(row, col);
            k_tile.B[row][col] = b.get_or_zero(row, col);
        }
        __syncthreads();

#pragma unroll
        for (int k = 0; k < TILE; ++k)
#pragma unroll
            for (int i = 0; i < SIDE; ++i)
#pragma unroll
                for (int j = 0; j < SIDE; ++j)
                    acc[i][j] = __fmaf_rn(k_tile.A[m0 + i][k], k_tile.B[k][n0 + j], acc[i][j]);
        __syncthreads();

        a.move_right(TILE);
        b.move_down(TILE);
    }
#pragma unroll
    for (int i = 0; i < SIDE; ++i) store_row<true>(c, m0 + i, n0, acc[i], alpha, beta);
}
