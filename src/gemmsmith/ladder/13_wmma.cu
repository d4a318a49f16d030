// 13 wmma: tensor cores through the C++ API.
//
// Idea      A tensor core multiplies small matrices with one instruction of a whole warp. CUDA's wmma
//           namespace wraps it: load a fragment, multiply fragments, store a fragment. Which lane holds
//           which element is hidden. Inputs have 16 bits, accumulators are fp32. The product of two
//           16-bit numbers is exact; the tensor core rounds sums in its own way.
// Changed   From 12: a warp tile consists of 16 x 16 fragments instead of thread tiles; the innermost
//           loop is one call. A and B are kept in shared memory as stored, transposed or not: a
//           fragment can be loaded either way, so all four layouts work.
// Owns      A block owns BM x BN outputs, a warp WM x WN of them, in fragments of 16 x 16:
//
// block 128 x 128                    warp 64 x 32          multiplied with 16 of k at a time:
// +-------+-------+-------+-------+  +----+----+
// | warp0 | warp1 | warp2 | warp3 |  |    |    |           b     b        4 + 2 loads
// |       |       |       |       |  +----+----+        a [c]   [c]       for 8 products
// +-------+-------+-------+-------+  |    |    |        a [c]   [c]       of 16 x 16 x 16
// | warp4 | warp5 | warp6 | warp7 |  +----+----+        a [c]   [c]
// |       |       |       |       |  :    :    :        a [c]   [c]
// +-------+-------+-------+-------+
//
// Budget    The rows of A and B, each with PAD more elements: 2 * (BM * (BK + PAD) + BK * (BN + PAD)) =
//           18,944 B. Per lane 64 accumulators and 48 fragment registers.
// Needs     sm_80. ALIGNED = 1, for rows of A and B that start on 16 bytes, loads 8 elements at a time;
//           ALIGNED = 0 works at any alignment, one element at a time.
// Try next  PAD = 8 avoids bank conflicts when fragments are loaded (PAD = 0 shows what that is worth),
//           but it costs memory, and conflicts when rows are stored. And since the layout of a fragment
//           is hidden, the accumulators reach C through shared memory. Use mma.sync, whose layout is
//           documented (14 mma_swizzled).

#include <mma.h>

#include "epilogue/epilogue.cuh"
#include "schedule/tile_order.cuh"

using namespace nvcuda;

constexpr int WARPS_N = BN / WN;
constexpr int WARPS = BM / WM * WARPS_N;
constexpr int THREADS = 32 * WARPS;
constexpr int VEC = 8;  // elements of 2 bytes: 16-byte loads
constexpr int SIDE = 16;
static_assert(BM * BK % (THREADS * VEC) == 0 && BK * BN % (THREADS * VEC) == 0, "every thread loads the same amount");

// Tiles as stored: rows along M or K for A, along K or N for B.
constexpr int A_ROWS = TRANS_A ? BK : BM, A_COLS = TRANS_A ? BM : BK;
constexpr int B_ROWS = TRANS_B ? BN : BK, B_COLS = TRANS_B ? BK : BN;
template <bool Transposed>
struct Order {
    using type = wmma::row_major;
};
template <>
struct Order<true> {
    using type = wmma::col_major;
};
using FragmentA = wmma::fragment<wmma::matrix_a, SIDE, SIDE, SIDE, IN, Order<TRANS_A>::type>;
using FragmentB = wmma::fragment<wmma::matrix_b, SIDE, SIDE, SIDE, IN, Order<TRANS_B>::type>;
using FragmentC = wmma::fragment<wmma::accumulator, SIDE, SIDE, SIDE, float>;

union Shared {
    struct {
        alignas(32) IN A[A_ROWS][A_COLS + PAD];
        alignas(32) IN B[B_ROWS][B_COLS + PAD];
    } k_tile;
    alignas(32) float outputs[WARPS][SIDE][SIDE + 4];  // one fragment per warp, on its way to C
};

// Guarded: elements outside the matrix become zero. Otherwise the whole tile must be inside and aligned.
template <bool Guarded, int Rows, int Cols>
__device__ __forceinline__ void load_tile(IN (&tile)[Rows][Cols + PAD], const Window<const IN>& matrix) {
#pragma unroll
    for (int i = 0; i < Rows * Cols; i += THREADS * VEC) {
        const int row = (i + threadIdx.x * VEC) / Cols;
        const int col = (i + threadIdx.x * VEC) % Cols;
        *reinterpret_cast<Vec<IN, VEC>*>(&tile[row][col]) = load_vector<Guarded, VEC>(matrix, row, col);
    }
}

__device__ __forceinline__ void store_tile(const Window<OUT>& c, int m0, int n0, float (&outputs)[SIDE][SIDE + 4],
                                           FragmentC (&acc)[WM / SIDE][WN / SIDE], const Epilogue<OUT>& epilogue,
                                           bool whole) {
    const int row = threadIdx.x % 32 / 2;  // each lane has half a row of a fragment
    const int col = threadIdx.x % 2 * 8;
    for_each_row(acc, [&](int i, const FragmentC (&fragments)[WN / SIDE]) {
#pragma unroll
        for (int j = 0; j < WN / SIDE; ++j) {
            wmma::store_matrix_sync(&outputs[0][0], fragments[j], SIDE + 4, wmma::mem_row_major);
            __syncwarp();
            float values[8];
            load_fragment<4>(values, &outputs[row][col]);
            store_with_epilogue<4, 8>(c, m0 + i * SIDE + row, n0 + j * SIDE + col, values, epilogue, whole);
            __syncwarp();
        }
    });
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const IN* __restrict__ A, long long lda,
     const IN* __restrict__ B, long long ldb, float beta, OUT* C, long long ldc,
     const OUT* __restrict__ bias, long long strideA, long long strideB, long long strideC) {
    __shared__ Shared shared;
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<BM, BN>(N);
    const bool c_aligned = vectors_fit<4>(C, ldc) && strideC % 4 == 0;
    A += blockIdx.z * strideA;
    B += blockIdx.z * strideB;
    C += blockIdx.z * strideC;
    auto a = TRANS_A ? window(A, lda, K, M, 0, tile.row) : window(A, lda, M, K, tile.row, 0);
    auto b = TRANS_B ? window(B, ldb, N, K, tile.col, 0) : window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const int warp = threadIdx.x / 32;
    const int m0 = warp / WARPS_N * WM;
    const int n0 = warp % WARPS_N * WN;

    FragmentC acc[WM / SIDE][WN / SIDE];
    for (auto& row : acc)
        for (auto& fragment : row) wmma::fill_fragment(fragment, 0.0f);
    for (int left = K; left > 0; left -= BK) {
        if (ALIGNED && a.holds(A_ROWS, A_COLS) && b.holds(B_ROWS, B_COLS)) {
            load_tile<false, A_ROWS, A_COLS>(shared.k_tile.A, a);
            load_tile<false, B_ROWS, B_COLS>(shared.k_tile.B, b);
        } else {
            load_tile<true, A_ROWS, A_COLS>(shared.k_tile.A, a);
            load_tile<true, B_ROWS, B_COLS>(shared.k_tile.B, b);
        }
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; k += SIDE) {
            FragmentA a_k[WM / SIDE];
            FragmentB b_k[WN / SIDE];
#pragma unroll
            for (int i = 0; i < WM / SIDE; ++i) {
                const int m = m0 + i * SIDE;
                wmma::load_matrix_sync(a_k[i], TRANS_A ? &shared.k_tile.A[k][m] : &shared.k_tile.A[m][k], A_COLS + PAD);
            }
#pragma unroll
            for (int j = 0; j < WN / SIDE; ++j) {
                const int n = n0 + j * SIDE;
                wmma::load_matrix_sync(b_k[j], TRANS_B ? &shared.k_tile.B[n][k] : &shared.k_tile.B[k][n], B_COLS + PAD);
            }
#pragma unroll
            for (int i = 0; i < WM / SIDE; ++i)
#pragma unroll
                for (int j = 0; j < WN / SIDE; ++j) wmma::mma_sync(acc[i][j], a_k[i], b_k[j], acc[i][j]);
        }
        __syncthreads();

        TRANS_A ? a.move_down(BK) : a.move_right(BK);
        TRANS_B ? b.move_right(BK) : b.move_down(BK);
    }
    const auto epilogue = epilogue_at(tile.row, tile.col, alpha, beta, bias);
    store_tile(c, m0, n0, shared.outputs[warp], acc, epilogue, c_aligned && c.holds(BM, BN));
}
