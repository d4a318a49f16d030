// 08 padded: no bank conflict is left between threads and shared memory, and k-tiles may be deeper.
//
// Idea      Shared memory has 32 banks of 4 bytes. Two lanes of a warp that want different words of
//           one bank are served one after the other. In 07 both operands collide:
//           Stores of A: element [k][m] lies in bank (k * BM + m) % 32. BM is a multiple of 32, so
//           all k of a row m share one bank. Rows that are PAD floats longer shift each k by PAD.
//           Loads of B: a thread's TN = 8 columns lie side by side, so neighbours read their
//           float4s 32 bytes apart and use only every other group of four banks. Padding cannot
//           help: the stride is the thread tile's. Give a thread its columns in groups of four,
//           BN / TN threads apart instead, and neighbours read neighbouring float4s.
// Changed   k_tile.A has BM + PAD columns. A thread's columns are n0 + j * (BN / TN) for j = 0, 4 ...
//           BK may be 16 or 32: fewer barriers per multiplication.
// Owns      A block owns BM x BN outputs, a thread TM rows of them by TN / 4 groups of four columns:
//
//              n    0    4    8        64   68
//                 | t0 | t1 | t2 | .. | t0 | t1 | ..         BN = 128, TN = 8
//
//           Banks that a warp's first store of A hits (BK = 8: 16 rows m, each with a vector at
//           k = 0 and one at k = 4), and those of the first 8 lanes' loads of B:
//
//                        PAD = 0                             PAD = 4
//           k = 0        0 1 2 .. 15                         0 1 2 .. 15
//           k = 4        0 1 2 .. 15   two each: 2 passes    16 17 .. 31   one each: 1 pass
//
//                        side by side                        in groups
//           8 lanes      0-3 8-11 .. 24-27, twice: 2 passes  0-3 4-7 .. 28-31: 1 pass
//
//           PAD = 8 shifts k = 4 by 32, that is, not at all. PAD = 1 leaves rows unaligned: k_tile.A
//           is then read one float at a time. With BK = 16, stores of A keep a two-way conflict.
//
// Budget    (BM + PAD + BN) * BK floats of shared memory: 8,320 B for BK = 8, 16,640 B for BK =
//           16. Registers as 07.
// Needs     As 07.
// Try next  Two fragments of eight values are read for 64 multiplications. Ask which thread tile,
//           and how much unrolling, feeds the arithmetic best (09 rectangular).

#include "epilogue/linear_combination.cuh"
#include "schedule/tile_order.cuh"

constexpr int THREADS = BM * BN / (TM * TN);
constexpr int VEC = 4;
constexpr int A_VEC = PAD % 4 == 0 ? 4 : 1;  // padded rows start on 16 bytes only for such a PAD
constexpr int GROUP_STRIDE = 4 * (BN / TN);   // columns between two groups of four of a thread
static_assert(BM * BK % (THREADS * VEC) == 0 && BK * BN % (THREADS * VEC) == 0, "every thread loads equally much");

struct KTile {
    alignas(16) float A[BK][BM + PAD];  // transposed
    alignas(16) float B[BK][BN];
};

// Guarded fills what lies outside the matrices with zeros; without it everything must lie inside, aligned.
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
__device__ __forceinline__ void store_tile(const Window<float>& c, int m0, int n0, const float (&acc)[TM][TN / 4][4],
                                           float alpha, float beta) {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int group = 0; group < TN / 4; ++group)
            store_vectors<Guarded, VEC>(c, m0 + i, n0 + group * GROUP_STRIDE, acc[i][group], alpha, beta);
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
    const int n0 = threadIdx.x % (BN / TN) * 4;

    float acc[TM][TN / 4][4] = {};
    while (a.cols > 0) {
        if (aligned && a.holds(BM, BK) && b.holds(BK, BN))
            load_k_tile<false>(k_tile, a, b);
        else
            load_k_tile<true>(k_tile, a, b);
        __syncthreads();

#pragma unroll 2  // loads of one step run under the arithmetic of the other; more steps need more registers
        for (int k = 0; k < BK; ++k) {
            float a_k[TM], b_k[TN / 4][4];
            load_fragment<A_VEC>(a_k, &k_tile.A[k][m0]);
#pragma unroll
            for (int group = 0; group < TN / 4; ++group)
                load_fragment<4>(b_k[group], &k_tile.B[k][n0 + group * GROUP_STRIDE]);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j)
                    acc[i][j / 4][j % 4] = __fmaf_rn(a_k[i], b_k[j / 4][j % 4], acc[i][j / 4][j % 4]);
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
