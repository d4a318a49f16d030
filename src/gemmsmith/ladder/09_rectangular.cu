// 09 rectangular: the shape of the thread tile, and k unrolled by hand.
//
// Idea      A TM x TN thread tile reads TM + TN values for TM * TN multiplications and holds TM *
//           TN accumulators: 4 x 4 starves, 8 x 8 crowds the registers, 8 x 4 sits between. And A
//           need not be transposed: when k advances by 4, a float4 *along k* of each of the TM
//           rows is as few loads, and needs no scattered store.
// Changed   slice.A is [m][k] again and read along k; UNROLL steps of k per trip. A thread's rows
//           are dealt out like cards, every (BM / TM)-th one, so that a warp reads neighbouring
//           rows: PAD then parts their banks. Big slices need more than the 48 KB a kernel may
//           declare: shared memory is dynamic from here on.
// Owns      A block owns BM x BN outputs; a thread owns TM rows of TN / 4 groups of four columns:
//
//                              slice.B  +--------------------+
//                                       |  [b_k]       [b_k] |  k .. k+3
//                  slice.A              +--------------------+
//                 +---------+   thread  +--------------------+
//                 | [a    ] |           |  ####        ####  |   ty
//                 |         |           |                    |
//                 | [a    ] |           |  ####        ####  |   ty + BM / TM
//                 +---------+           +--------------------+
//                   k .. k+3             4 tx      4 (tx + BN / TN)
//
// Budget    BM * (BK + PAD) + BK * BN floats of shared memory: 33,792 B for 64 x 64 x 64. TM * TN
//           accumulators and TM * 4 + TN operands: 68 values for 8 x 4. While a slice is loaded,
//           16 float4 are on their way, too.
// Needs     Vectors only where A, B and C start on 16 bytes and lda, ldb, ldc are multiples of 4;
//           elsewhere, and at the edges, it goes element by element.
// Try next  A level between block and thread (10 warp_tile); loads that run while we multiply (11
//           async_copy).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int ACROSS = BN / TN;  // threads along a row of the tile
constexpr int DOWN = BM / TM;    // and along a column
constexpr int THREADS = ACROSS * DOWN;
constexpr int VEC = 4;
constexpr int K_VEC = UNROLL < 4 ? UNROLL : 4;  // steps of k for which A is read at once
static_assert(BM * BK % (THREADS * VEC) == 0 && BK * BN % (THREADS * VEC) == 0, "every thread loads equally much");

struct Slice {
    alignas(16) float A[BM][BK + PAD];
    alignas(16) float B[BK][BN];
};

// Guarded fills what lies outside the matrices with zeros; without it everything must lie inside, aligned.
template <bool Guarded>
__device__ __forceinline__ void load_slice(Slice& slice, const Window<const float>& a, const Window<const float>& b) {
#pragma unroll
    for (int i = 0; i < BM * BK; i += THREADS * VEC) {
        const int m = (i + threadIdx.x * VEC) / BK;
        const int k = (i + threadIdx.x * VEC) % BK;
        *reinterpret_cast<Vec<float, VEC>*>(&slice.A[m][k]) = load_vector<Guarded, VEC>(a, m, k);
    }
#pragma unroll
    for (int i = 0; i < BK * BN; i += THREADS * VEC) {
        const int k = (i + threadIdx.x * VEC) / BN;
        const int n = (i + threadIdx.x * VEC) % BN;
        *reinterpret_cast<Vec<float, VEC>*>(&slice.B[k][n]) = load_vector<Guarded, VEC>(b, k, n);
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

// acc += slice.A * slice.B, the thread's part, k ascending.
__device__ __forceinline__ void multiply(const Slice& slice, int tx, int ty, float (&acc)[TM][TN / 4][4]) {
#pragma unroll 1
    for (int k0 = 0; k0 < BK; k0 += UNROLL) {
#pragma unroll
        for (int k = k0; k < k0 + UNROLL; k += K_VEC) {
            float a[TM][K_VEC];
#pragma unroll
            for (int i = 0; i < TM; ++i) load_fragment<K_VEC>(a[i], &slice.A[ty + i * DOWN][k]);
#pragma unroll
            for (int kk = 0; kk < K_VEC; ++kk) {
#pragma unroll
                for (int g = 0; g < TN / 4; ++g) {
                    float b_k[4];
                    load_fragment<4>(b_k, &slice.B[k + kk][(tx + g * ACROSS) * 4]);
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
    extern __shared__ Slice slices[];
    Slice& slice = slices[0];
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<BM, BN>(N);
    auto a = window(A, lda, M, K, tile.row, 0);
    auto b = window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const bool aligned = vectors_fit<VEC>(A, lda) && vectors_fit<VEC>(B, ldb);
    const int tx = threadIdx.x % ACROSS;
    const int ty = threadIdx.x / ACROSS;

    float acc[TM][TN / 4][4] = {};
    while (a.cols > 0) {
        if (aligned && a.holds(BM, BK) && b.holds(BK, BN))
            load_slice<false>(slice, a, b);
        else
            load_slice<true>(slice, a, b);
        __syncthreads();

        multiply(slice, tx, ty, acc);
        __syncthreads();

        a.move_right(BK);
        b.move_down(BK);
    }
    if (vectors_fit<VEC>(C, ldc) && c.holds(BM, BN))
        store_tile<false>(c, tx, ty, acc, alpha, beta);
    else
        store_tile<true>(c, tx, ty, acc, alpha, beta);
}
