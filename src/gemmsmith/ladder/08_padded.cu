// 08 padded: rows shifted against bank conflicts, and a deeper slice.
//
// Idea      Shared memory has 32 banks of 4 bytes; element [k][m] of slice.A lies in bank (k * BM
//           + m) % 32. BM is a multiple of 32, so all k fall into one bank. Make rows PAD floats
//           longer, and each k is shifted by PAD.
// Changed   slice.A has BM + PAD columns, and BK may be 16 or 32: fewer barriers per
//           multiplication.
// Owns      As 06: a block owns BM x BN outputs, a thread TM x TN of them. Banks that a warp's
//           first scattered store hits (BK = 8: 16 rows m, in each a vector at k = 0 and one at k
//           = 4):
//
//                        PAD = 0                             PAD = 4
//           k = 0        0 1 2 .. 15                         0 1 2 .. 15
//           k = 4        0 1 2 .. 15   two each: 2 passes    16 17 .. 31   one each: 1 pass
//
// PAD = 8 shifts k = 4 by 32, that is, not at all. PAD = 1 leaves rows unaligned: slice.A is then read
// one float at a time. slice.B is written and read along its rows and needs no padding.
//
// Budget    (BM + PAD + BN) * BK floats of shared memory: 8,320 B for BK = 8, 16,640 B for BK =
//           16. Registers as 07.
// Needs     As 07.
// Try next  Conflicts were not the bottleneck here: two 8-wide fragments are read for 64
//           multiplications. Ask which thread tile, and how much unrolling, feeds the arithmetic
//           best (09 rectangular).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int THREADS = BM * BN / (TM * TN);
constexpr int VEC = 4;
constexpr int A_VEC = PAD % 4 == 0 ? 4 : 1;  // padded rows start on 16 bytes only for such a PAD
static_assert(BM * BK % (THREADS * VEC) == 0 && BK * BN % (THREADS * VEC) == 0, "every thread loads equally much");

struct Slice {
    alignas(16) float A[BK][BM + PAD];  // transposed
    alignas(16) float B[BK][BN];
};

// Guarded fills what lies outside the matrices with zeros; without it everything must lie inside, aligned.
template <bool Guarded>
__device__ __forceinline__ void load_slice(Slice& slice, const Window<const float>& a, const Window<const float>& b) {
#pragma unroll
    for (int i = 0; i < BM * BK; i += THREADS * VEC) {
        const int m = (i + threadIdx.x * VEC) / BK;
        const int k = (i + threadIdx.x * VEC) % BK;
        const auto values = load_vector<Guarded, VEC>(a, m, k);
#pragma unroll
        for (int j = 0; j < VEC; ++j) slice.A[k + j][m] = values.at[j];
    }
#pragma unroll
    for (int i = 0; i < BK * BN; i += THREADS * VEC) {
        const int k = (i + threadIdx.x * VEC) / BN;
        const int n = (i + threadIdx.x * VEC) % BN;
        *reinterpret_cast<Vec<float, VEC>*>(&slice.B[k][n]) = load_vector<Guarded, VEC>(b, k, n);
    }
}

template <bool Guarded>
__device__ __forceinline__ void store_tile(const Window<float>& c, int m0, int n0, const float (&acc)[TM][TN],
                                           float alpha, float beta) {
#pragma unroll
    for (int i = 0; i < TM; ++i) store_vectors<Guarded, VEC>(c, m0 + i, n0, acc[i], alpha, beta);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc) {
    __shared__ Slice slice;
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<BM, BN>(N);
    auto a = window(A, lda, M, K, tile.row, 0);
    auto b = window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const bool aligned = vectors_fit<VEC>(A, lda) && vectors_fit<VEC>(B, ldb);
    const int m0 = threadIdx.x / (BN / TN) * TM;
    const int n0 = threadIdx.x % (BN / TN) * TN;

    float acc[TM][TN] = {};
    while (a.cols > 0) {
        if (aligned && a.holds(BM, BK) && b.holds(BK, BN))
            load_slice<false>(slice, a, b);
        else
            load_slice<true>(slice, a, b);
        __syncthreads();

#pragma unroll 2  // loads of one step run under the arithmetic of the other; more steps need more registers
        for (int k = 0; k < BK; ++k) {
            float a_k[TM], b_k[TN];
            load_fragment<A_VEC>(a_k, &slice.A[k][m0]);
            load_fragment<4>(b_k, &slice.B[k][n0]);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] = __fmaf_rn(a_k[i], b_k[j], acc[i][j]);
        }
        __syncthreads();

        a.move_right(BK);
        b.move_down(BK);
    }
    if (vectors_fit<VEC>(C, ldc) && c.holds(BM, BN))
        store_tile<false>(c, m0, n0, acc, alpha, beta);
    else
        store_tile<true>(c, m0, n0, acc, alpha, beta);
}
