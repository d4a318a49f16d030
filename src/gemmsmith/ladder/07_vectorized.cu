// 07 vectorized: four floats per instruction.
//
// Idea      One 16-byte load replaces four 4-byte loads: fewer instructions, and the same bytes in
//           fewer requests. From global memory this works along rows. From shared memory a thread
//           wants TM consecutive elements of a *column* of A. So A is stored transposed in shared
//           memory, and both operands are read as float4.
// Changed   k_tile.A is [k][m]. load_k_tile, the fragments and store_tile move vectors. Unguarded
//           now also means aligned.
// Owns      As 06: a block owns BM x BN outputs, a thread TM x TN of them.
//
//         A in global memory              k_tile.A            k_tile.B
//             k 0123                      m 01234567..        n 01234567..
//         m 0 [abcd]----- scattered  k 0  a   [a_k ]     k 0  [b_k ]         one float4 of each: 16
//           1                          1  b                1                 multiplications
//           2                          2  c                2
//           3                          3  d                3
//
// Budget    (BM + BN) * BK floats of shared memory: 8 KB. TM * TN + TM + TN values in registers: 80.
// Needs     Nothing. Vectors are used where A, B and C start on 4 * VEC bytes and lda, ldb, ldc are
//           multiples of VEC. Elsewhere, and at the edges, single elements are moved.
// Try next  The scattered stores have bank conflicts: two threads of a warp write to each bank for
//           BK = 8, four for BK = 16. Pad the rows of k_tile.A (08 padded).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int THREADS = BM * BN / (TM * TN);
static_assert(BM * BK % (THREADS * VEC) == 0 && BK * BN % (THREADS * VEC) == 0, "every thread loads the same amount");

struct KTile {
    alignas(16) float A[BK][BM];  // transposed
    alignas(16) float B[BK][BN];
};

// Guarded: elements outside the matrices become zero. Otherwise the whole k-tile must be inside and aligned.
template <bool Guarded>
__device__ __forceinline__ void load_k_tile(KTile& k_tile, const Window<const float>& a, const Window<const float>& b) {
#pragma unroll
    for (int i = 0; i < BM * BK; i += THREADS * VEC) {
        const int m = (i + threadIdx.x * VEC) / BK;
        const int k = (i + threadIdx.x * VEC) % BK;
        const auto values = load_vector<Guarded, VEC>(a, m, k);
#pragma unroll
        for (int j = 0; j < VEC; ++j) k_tile.A[k + j][m] = values.at[j];
    }
#pragma unroll
    for (int i = 0; i < BK * BN; i += THREADS * VEC) {
        const int k = (i + threadIdx.x * VEC) / BN;
        const int n = (i + threadIdx.x * VEC) % BN;
        *reinterpret_cast<Vec<float, VEC>*>(&k_tile.B[k][n]) = load_vector<Guarded, VEC>(b, k, n);
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
    __shared__ KTile k_tile;
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
            load_k_tile<false>(k_tile, a, b);
        else
            load_k_tile<true>(k_tile, a, b);
        __syncthreads();

#pragma unroll 2  // the loads of one step overlap the arithmetic of the other; more steps need more registers
        for (int k = 0; k < BK; ++k) {
            float a_k[TM], b_k[TN];
            load_fragment<4>(a_k, &k_tile.A[k][m0]);
            load_fragment<4>(b_k, &k_tile.B[k][n0]);
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
