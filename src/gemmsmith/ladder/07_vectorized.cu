// 07 vectorized: four floats per instruction.
//
// Idea      One 16-byte load replaces four of 4 bytes: fewer instructions, and the same bytes in
//           fewer requests. From global memory that works along rows. From shared memory a thread
//           wants TM neighbours of a *column* of A; so A goes into shared memory transposed, and
//           both operands are read as float4.
// Changed   slice.A is [k][m]. load_slice, the fragments and store_tile move vectors; unguarded
//           also means aligned.
// Owns      As 06: a block owns BM x BN outputs, a thread TM x TN of them.
//
//         A in global memory              slice.A             slice.B
//             k 0123                      m 01234567..        n 01234567..
//         m 0 [abcd]----- scattered  k 0  a   [a_k ]     k 0  [b_k ]         one float4 of each: 16
//           1                          1  b                1                 multiplications
//           2                          2  c                2
//           3                          3  d                3
//
// Budget    (BM + BN) * BK floats of shared memory: 8 KB. TM * TN + TM + TN values in registers:
//           80.
// Needs     Vectors only where A, B and C start on 4 * VEC bytes and lda, ldb, ldc are multiples
//           of VEC; elsewhere, and at the edges, it goes element by element.
// Try next  The scattered stores collide: for BK = 8 two threads of a warp write to each bank,
//           for BK = 16 four do. Shift the rows of slice.A against each other (08 padded).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int THREADS = BM * BN / (TM * TN);
static_assert(BM * BK % (THREADS * VEC) == 0 && BK * BN % (THREADS * VEC) == 0, "every thread loads equally much");

struct Slice {
    alignas(16) float A[BK][BM];  // transposed
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
            load_fragment<4>(a_k, &slice.A[k][m0]);
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
