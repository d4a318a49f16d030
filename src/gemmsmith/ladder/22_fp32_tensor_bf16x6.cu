// 22 fp32_tensor_bf16x6: fp32 products, as accurate as fp32, on tensor cores that know bf16.
//
// Idea      Tensor cores multiply bf16 an order of magnitude faster than CUDA cores fp32. An fp32
//           number is the sum of three bf16 numbers, and of the nine products of two such sums six
//           are large enough to matter (split_bf16.cuh): six times the work, and still faster.
//           What spoils it is the tensor core's sum, which is cut off and not rounded. So it never
//           runs long: it starts from zero for every PROMOTE of k, x1 y1 apart from the five
//           products that are small beside it, and is then added, rounded to nearest, to sums that
//           stay outside. That leaves K / PROMOTE roundings where a loop of fma has K.
// Changed   From 15: operands are fp32 all the way to the registers and split there; fragments of B
//           come and go 16 columns at a time, since three parts of all would not fit, and the loop
//           is plain again: other warps work while one waits. Sums that are not finite are
//           computed again by fma (ieee_recompute.cuh): so infinities, NaN and the end of the range come
//           out as IEEE arithmetic has them, at no cost where there are none.
// Owns      As 15: a block owns BM x BN outputs, a warp WM x WN. In time, for WN = 64 and one step:
//
//   columns of B              0..15     16..31    32..47    48..63
//   multiply      [        ] [   0   ] [   1   ] [   2   ] [   3   ]      six products each
//   read, split   [A, B 0  ]   [B 1]     [B 2]     [B 3]
//   copy          [i + STAGES - 1 ...                                     slices, on their own
//                 after a barrier: slice i is there, and that of i - 1 is free
//
// Budget    STAGES * (BM + BN) * BK_BYTES of shared memory: 64 KB. A lane has WM * WN / 32 = 64 sums,
//           the parts of A (12 registers for 16 rows by 16 of k) and of 16 columns of B (12). For
//           16 of k a warp issues 96 products and 48 splits a lane, of 6.5 instructions each.
// Needs     sm_80. ALIGNED as 15. Any fp32 numbers; those of 2^112 and more, and sums of 2^96 and
//           more, cost a slow loop, as infinities and NaN do. No workspace; where there is one, it has
//           the verdict on fp16 parts, and this kernel computes what 24 must not.
// Try next  Every warp splits what it multiplies, and its neighbours do so again: split once for all.

#include "tile/split_bf16.cuh"
#include "tile/fp16_verdict.cuh"
#include "schedule/grouped_order.cuh"
#include "epilogue/ieee_recompute.cuh"
#include "epilogue/store_fragments.cuh"
#include "tile/tile_copy.cuh"

constexpr int WARPS_N = BN / WN;
constexpr int THREADS = 32 * (BM / WM) * WARPS_N;
constexpr int DEPTH = PROMOTE / 16;  // one mma.sync goes through 16 of k
constexpr int STEPS = BK_BYTES / 4 / PROMOTE;
constexpr int MT = WM / 16;          // fragments of A a warp has,
constexpr int GROUPS = WN / 16;      // and of B, one multiplied after another
static_assert(STEPS > 0, "a slice has at least one step");
using TileA = SwizzledTile<float, BM, BK_BYTES, !TRANS_A>;
using TileB = SwizzledTile<float, BN, BK_BYTES, TRANS_B>;
using ReaderA = FragmentReader<Operand::A, TileA>;
using ReaderB = FragmentReader<Operand::B, TileB>;
using Sums = float[MT][GROUPS * 8];
using Whole = unsigned[DEPTH][2][4];  // a fragment of fp32,
using Parts = unsigned[DEPTH][3][4];  // and as bf16
constexpr int STAGE = TileA::BYTES + TileB::BYTES;

template <class Reader>
__device__ __forceinline__ void read_fragment(Whole& whole, const Reader& reader, unsigned tile, int index, int step) {
#pragma unroll
    for (int d = 0; d < DEPTH * 2; ++d) reader.load(whole[d / 2][d % 2], tile, index, step * DEPTH * 2 + d);
}

template <Operand Which>
__device__ __forceinline__ void split(Parts& parts, const Whole& whole) {
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) split_fragment<Which>(parts[d], whole[d]);
}

// Adds the products of PROMOTE of k: all rows of a warp by 8 of the 16 columns of b.
__device__ __forceinline__ void multiply(Sums& sums, int column, const Parts (&a)[MT], const Parts& b, int half) {
    float large[MT][4] = {}, small[MT][4] = {};
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
        for (int p = 0; p < SMALL_PRODUCTS; ++p)
#pragma unroll
            for (int i = 0; i < MT; ++i)
                mma(small[i], a[i][d][SMALL_A[p]], &b[d][SMALL_B[p]][half * 2], __nv_bfloat16());
#pragma unroll
        for (int i = 0; i < MT; ++i) mma(large[i], a[i][d][0], &b[d][0][half * 2], __nv_bfloat16());
    }
#pragma unroll
    for (int i = 0; i < MT; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            sums[i][column + j] = __fadd_rn(sums[i][column + j], __fadd_rn(large[i][j], small[i][j]));
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc,
     const float* __restrict__ bias, long long strideA, long long strideB, long long strideC, const int* workspace) {
    extern __shared__ __align__(128) unsigned char shared[];  // a ring of STAGES tiles of A and B
    if (workspace && fp16_accepted(workspace)) return;  // another has computed it
    const unsigned ring = shared_address(shared);
    drop_empty_product(K, alpha);
    const Tile tile = grouped_tile<BM, BN, GROUP>(M, N);
    const bool vectors = vectors_fit<4>(C, ldc) && strideC % 4 == 0;
    A += blockIdx.z * strideA;
    B += blockIdx.z * strideB;
    C += blockIdx.z * strideC;
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    TileCopy<TileA, THREADS> copy_a(A, lda, tile.row, M, K);
    TileCopy<TileB, THREADS> copy_b(B, ldb, tile.col, N, K);
    const int m0 = threadIdx.x / 32 / WARPS_N * WM;
    const int n0 = threadIdx.x / 32 % WARPS_N * WN;
    const ReaderA read_a(m0);
    const ReaderB read_b(n0);

    Sums sums = {};
    const auto run = [&](auto mode) {
        int left = K;  // not yet copied
        const auto copy = [&](unsigned slice) {
            if (left > 0) {
                copy_a.copy<decltype(mode)::value>(slice);
                copy_b.copy<decltype(mode)::value>(slice + TileA::BYTES);
            }
            cp_async_commit();  // even an empty group: waiting counts groups, so every slice must have one
            left -= TileA::BK;
            copy_a.advance();
            copy_b.advance();
        };
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; ++stage) copy(ring + stage * STAGE);
        const auto after = [&](unsigned slice) { return slice == ring + (STAGES - 1) * STAGE ? ring : slice + STAGE; };
        unsigned from = ring, to = ring + (STAGES - 1) * STAGE;  // where slices are read and written
        for (int k = K; k > 0; k -= TileA::BK) {
            cp_async_wait<STAGES - 2>();
            __syncthreads();
            copy(to);
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                Whole whole;
                Parts a[MT], b;
                read_fragment(whole, read_b, from + TileA::BYTES, 0, step);
                split<Operand::B>(b, whole);
#pragma unroll
                for (int i = 0; i < MT; ++i) {
                    read_fragment(whole, read_a, from, i, step);
                    split<Operand::A>(a[i], whole);
                }
#pragma unroll
                for (int group = 0; group < GROUPS; ++group) {
                    if (group < GROUPS - 1) read_fragment(whole, read_b, from + TileA::BYTES, group + 1, step);
                    multiply(sums, group * 8, a, b, 0);
                    multiply(sums, group * 8 + 4, a, b, 1);
                    if (group < GROUPS - 1) split<Operand::B>(b, whole);
                }
            }
            from = after(from);
            to = after(to);
        }
    };
    if (K > 0) {
        if (!ALIGNED)
            run(CopyMode<Copy::ELEMENTS>());
        else if (c.holds(BM, BN) && K % TileA::BK == 0)
            run(CopyMode<Copy::WHOLE>());
        else
            run(CopyMode<Copy::EDGES>());
    }

    scale_or_sum_again(reinterpret_cast<float (&)[MT * GROUPS * 8]>(sums), SUM_UNSCALE, [&](int index) {
        const int row = m0 + index / (GROUPS * 8) * 16 + sum_row<false>(index / 2 % 2);
        const int col = n0 + index % (GROUPS * 8) / 4 * 8 + threadIdx.x % 4 * 2 + index % 2;
        if (!c.inside(row, col)) return 0.0f;
        const Line a = {A + (tile.row + row) * (TRANS_A ? 1 : lda), TRANS_A ? lda : 1};
        const Line b = {B + (tile.col + col) * (TRANS_B ? ldb : 1), TRANS_B ? 1 : ldb};
        return fma_sum(a, b, K);
    });
    const auto finish = finish_at(tile.row, tile.col, alpha, beta, bias);
    store_tile<false, false>(c, m0, n0, sums, finish, vectors && c.holds(BM, BN));
}
