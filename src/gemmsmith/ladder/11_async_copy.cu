// 11 async_copy: fetch the next k-tiles while multiplying this one.
//
// Idea      cp.async copies from global to shared memory without going through registers, and the
//           thread does not wait. With STAGES k-tiles in shared memory, STAGES - 1 are in flight while
//           one is multiplied. The copy cannot transpose, so this rung builds on 09 and its
//           untransposed A.
// Changed   From 09: load_k_tile issues asynchronous copies. The loop became a pipeline with one
//           barrier per k-tile instead of two.
// Owns      As 09: a block owns BM x BN outputs, a thread TM rows of TN / 4 groups of four columns.
//           In time, for STAGES = 3:
//
//   k-tile     0       1       2       3       4
//   copy    [0][1]    [2]     [3]     [4]
//   wait         0       1       2       3       4      until k-tile i has arrived, then a barrier
//   multiply      [  0  ] [  1  ] [  2  ] [  3  ] [  4  ]
//
// k-tile i + STAGES - 1 is copied into the stage of k-tile i - 1. The barrier of step i is in between:
// a thread that has passed it knows that all threads have finished step i - 1.
//
// Budget    STAGES * (BM * (BK + PAD) + BK * BN) floats of shared memory: 2 * 9,216 B for 64 x 64 x
//           16. Registers as 09, minus those that held loads in flight.
// Needs     sm_80. 16-byte copies where A and B start on 16 bytes and lda, ldb are multiples of 4; else
//           4-byte copies.
// Try next  Larger warp tiles and deeper pipelines together; 16-bit inputs (12 warp_tile_mixed), then
//           tensor cores.

#include "epilogue/linear_combination.cuh"
#include "ptx/cp_async.cuh"
#include "schedule/tile_order.cuh"

constexpr int ACROSS = BN / TN;  // threads along a row of the tile
constexpr int DOWN = BM / TM;    // and along a column
constexpr int THREADS = ACROSS * DOWN;
constexpr int VEC = 4;
constexpr int K_VEC = UNROLL < 4 ? UNROLL : 4;  // steps of k for which A is read by one load
static_assert(BM * BK % (THREADS * VEC) == 0 && BK * BN % (THREADS * VEC) == 0, "every thread loads the same amount");

struct KTile {
    alignas(16) float A[BM][BK + PAD];
    alignas(16) float B[BK][BN];
};

// Starts copying four adjacent elements. Guarded: one by one, with zeros outside the matrix. Otherwise: one copy.
template <bool Guarded>
__device__ __forceinline__ void copy_vector(float* shared, const Window<const float>& matrix, int row, int col) {
    if constexpr (Guarded) {
        const int valid = row < matrix.rows ? matrix.cols - col : 0;
        const float* const source = matrix.at(row, col);
#pragma unroll
        for (int j = 0; j < VEC; ++j) cp_async_4_or_zero(shared + j, j < valid ? source + j : matrix.origin, j < valid);
    } else {
        cp_async_16(shared, matrix.at(row, col));
    }
}

template <bool Guarded>
__device__ __forceinline__ void load_k_tile(KTile& k_tile, const Window<const float>& a, const Window<const float>& b) {
#pragma unroll
    for (int i = 0; i < BM * BK; i += THREADS * VEC) {
        const int m = (i + threadIdx.x * VEC) / BK;
        const int k = (i + threadIdx.x * VEC) % BK;
        copy_vector<Guarded>(&k_tile.A[m][k], a, m, k);
    }
#pragma unroll
    for (int i = 0; i < BK * BN; i += THREADS * VEC) {
        const int k = (i + threadIdx.x * VEC) / BN;
        const int n = (i + threadIdx.x * VEC) % BN;
        copy_vector<Guarded>(&k_tile.B[k][n], b, k, n);
    }
}

template <bool Guarded>
__device__ __forceinline__ void store_tile(const Window<float>& c, int tx, int ty, const float (&acc)[TM][TN / 4][4],
                                           float alpha, float beta) {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int g = 0; g < TN / 4; ++g)
            store_vectors<Guarded, 4>(c, ty + i * DOWN, (tx + g * ACROSS) * 4, acc[i][g], alpha, beta);
}

// acc += k_tile.A * k_tile.B: this thread's outputs, k ascending.
__device__ __forceinline__ void multiply(const KTile& k_tile, int tx, int ty, float (&acc)[TM][TN / 4][4]) {
#pragma unroll 1
    for (int k0 = 0; k0 < BK; k0 += UNROLL) {
#pragma unroll
        for (int k = k0; k < k0 + UNROLL; k += K_VEC) {
            float a[TM][K_VEC];
#pragma unroll
            for (int i = 0; i < TM; ++i) load_fragment<K_VEC>(a[i], &k_tile.A[ty + i * DOWN][k]);
#pragma unroll
            for (int kk = 0; kk < K_VEC; ++kk) {
#pragma unroll
                for (int g = 0; g < TN / 4; ++g) {
                    float b_k[4];
                    load_fragment<4>(b_k, &k_tile.B[k + kk][(tx + g * ACROSS) * 4]);
#pragma unroll
                    for (int i = 0; i < TM; ++i)
#pragma unroll
                        for (int j = 0; j < 4; ++j) acc[i][g][j] = __fmaf_rn(a[i][kk], b_k[j], acc[i][g][j]);
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc) {
    extern __shared__ KTile stages[];  // a ring of STAGES k-tiles
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<BM, BN>(N);
    auto a = window(A, lda, M, K, tile.row, 0);
    auto b = window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const bool aligned = vectors_fit<VEC>(A, lda) && vectors_fit<VEC>(B, ldb);
    const int tx = threadIdx.x % ACROSS;
    const int ty = threadIdx.x / ACROSS;

    // Starts the copy of the k-tile at the windows, if there is one left, and advances them. It commits a group even if
    // there is nothing to copy: cp_async_wait counts groups, so every k-tile must have one.
    const auto fetch = [&](KTile& k_tile) {
        if (a.cols > 0) {
            if (aligned && a.holds(BM, BK) && b.holds(BK, BN))
                load_k_tile<false>(k_tile, a, b);
            else
                load_k_tile<true>(k_tile, a, b);
        }
        cp_async_commit();
        a.move_right(BK);
        b.move_down(BK);
    };

#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) fetch(stages[stage]);

    float acc[TM][TN / 4][4] = {};
    int current = 0, next = STAGES - 1;
    for (int left = K; left > 0; left -= BK) {
        cp_async_wait<STAGES - 2>();  // this thread's copies of the current k-tile have arrived;
        __syncthreads();              // now all threads' have, and all are done with the one that `next` replaces
        fetch(stages[next]);
        multiply(stages[current], tx, ty, acc);
        next = current;
        current = current + 1 == STAGES ? 0 : current + 1;
    }
    if (vectors_fit<VEC>(C, ldc) && c.holds(BM, BN))
        store_tile<false>(c, tx, ty, acc, alpha, beta);
    else
        store_tile<true>(c, tx, ty, acc, alpha, beta);
}
