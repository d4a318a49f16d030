// 22 fp32_tensor_bf16x6: fp32 products with fp32 accuracy, on bf16 tensor cores.
//
// Idea      Tensor cores multiply bf16 an order of magnitude faster than CUDA cores multiply fp32. An
//           fp32 number is the sum of three bf16 terms, and six of the nine products of two such sums
//           are large enough to matter (split_bf16.cuh): six times the work, and still faster. The
//           weak point is the tensor core's accumulation, which truncates instead of rounding. So it is
//           kept short: it starts from zero for every PROMOTE of k, with x1 y1 separate from the five
//           small products. The result is then added, rounded to nearest, to accumulators outside the
//           tensor core. That leaves K / PROMOTE roundings where a loop of fma has K.
// Changed   From 15: operands stay fp32 up to the registers and are split there. Fragments of B are
//           read 16 columns at a time, since the terms of all would not fit. The loop is not
//           software-pipelined: other warps work while one waits. Accumulators that are not finite are
//           recomputed with fma (ieee_recompute.cuh). So infinities, NaN and overflow come out as in
//           IEEE arithmetic, at no cost where there are none.
// Owns      As 15: a block owns BM x BN outputs, a warp WM x WN. In time, for WN = 64 and one step:
//
//   columns of B              0..15     16..31    32..47    48..63
//   multiply      [        ] [   0   ] [   1   ] [   2   ] [   3   ]      six products each
//   read, split   [A, B 0  ]   [B 1]     [B 2]     [B 3]
//   copy          [i + STAGES - 1 ...                                     k-tiles, asynchronously
//                 after a barrier: k-tile i has arrived, and the stage of i - 1 is free
//
// Budget    STAGES * (BM + BN) * BK_BYTES of shared memory: 64 KB. Per lane WM * WN / 32 = 64
//           accumulators, the terms of A (12 registers for 16 rows by 16 of k) and those of 16 columns
//           of B (12). For 16 of k a warp issues 96 mma.sync; a lane splits 48 numbers, at 6.5
//           instructions each.
// Needs     sm_80. ALIGNED as 15. Any fp32 numbers. Numbers of 2^112 and above, and sums of 2^96 and
//           above, take the slow fma loop, as infinities and NaN do. A workspace only as the fallback of
//           24: it holds the verdict on the fp16 split, and this kernel computes what 24 refuses.
// Try next  Every warp splits what it multiplies, and its neighbours split the same numbers again: split
//           once for all (24 fp32_tensor_fp16x3).

#include "epilogue/ieee_recompute.cuh"
#include "epilogue/store_fragments.cuh"
#include "schedule/grouped_order.cuh"
#include "tile/fp16_verdict.cuh"
#include "tile/split_bf16.cuh"
#include "tile/swizzled_copy.cuh"

constexpr int WARPS_N = BN / WN;
constexpr int THREADS = 32 * (BM / WM) * WARPS_N;
constexpr int DEPTH = PROMOTE / 16;   // one mma.sync consumes 16 of k
constexpr int STEPS = BK_BYTES / 4 / PROMOTE;
constexpr int MT = WM / 16;           // fragments of A per warp
constexpr int B_FRAGMENTS = WN / 16;  // and of B, multiplied one after another
static_assert(STEPS > 0, "a k-tile has at least one step");
using TileA = SwizzledTile<float, BM, BK_BYTES, !TRANS_A>;
using TileB = SwizzledTile<float, BN, BK_BYTES, TRANS_B>;
using ReaderA = FragmentReader<Operand::A, TileA>;
using ReaderB = FragmentReader<Operand::B, TileB>;
using Accumulators = float[MT][B_FRAGMENTS * 8];
using Fp32Fragment = unsigned[DEPTH][2][4];
using SplitFragment = unsigned[DEPTH][3][4];  // its bf16 terms
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;

template <class Reader>
__device__ __forceinline__ void read_fragment(Fp32Fragment& fp32, const Reader& reader, unsigned tile, int index,
                                              int step) {
#pragma unroll
    for (int d = 0; d < DEPTH * 2; ++d) reader.load(fp32[d / 2][d % 2], tile, index, step * DEPTH * 2 + d);
}

template <Operand Which>
__device__ __forceinline__ void split(SplitFragment& terms, const Fp32Fragment& fp32) {
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) split_fragment<Which>(terms[d], fp32[d]);
}

// Adds the products of PROMOTE of k: all rows of a warp by 8 of the 16 columns of b.
__device__ __forceinline__ void multiply(Accumulators& acc, int column, const SplitFragment (&a)[MT],
                                         const SplitFragment& b, int half) {
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
            acc[i][column + j] = __fadd_rn(acc[i][column + j], __fadd_rn(large[i][j], small[i][j]));
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc,
     const float* __restrict__ bias, long long strideA, long long strideB, long long strideC, const int* workspace) {
    extern __shared__ __align__(128) unsigned char shared[];  // a ring of STAGES k-tiles of A and B
    if (workspace && fp16_accepted(workspace)) return;  // another kernel computes this product
    const unsigned ring = shared_address(shared);
    drop_empty_product(K, alpha);
    const Tile tile = grouped_tile<BM, BN, GROUP>(M, N);
    const bool c_aligned = vectors_fit<4>(C, ldc) && strideC % 4 == 0;
    A += blockIdx.z * strideA;
    B += blockIdx.z * strideB;
    C += blockIdx.z * strideC;
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    SwizzledCopy<TileA, THREADS> copy_a(A, lda, tile.row, M, K);
    SwizzledCopy<TileB, THREADS> copy_b(B, ldb, tile.col, N, K);
    const int m0 = threadIdx.x / 32 / WARPS_N * WM;
    const int n0 = threadIdx.x / 32 % WARPS_N * WN;
    const ReaderA read_a(m0);
    const ReaderB read_b(n0);

    Accumulators acc = {};
    const auto run = [&](auto mode) {
        int left = K;  // not yet copied
        const auto copy = [&](unsigned stage) {
            if (left > 0) {
                copy_a.copy<decltype(mode)::value>(stage);
                copy_b.copy<decltype(mode)::value>(stage + TileA::BYTES);
            }
            cp_async_commit();  // even an empty group: cp_async_wait counts groups, so every k-tile must have one
            left -= TileA::BK;
            copy_a.advance();
            copy_b.advance();
        };
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; ++stage) copy(ring + stage * STAGE_BYTES);
        const auto after = [&](unsigned stage) {
            return stage == ring + (STAGES - 1) * STAGE_BYTES ? ring : stage + STAGE_BYTES;
        };
        unsigned from = ring, to = ring + (STAGES - 1) * STAGE_BYTES;  // the stages being read and written
        for (int k = K; k > 0; k -= TileA::BK) {
            cp_async_wait<STAGES - 2>();
            __syncthreads();
            copy(to);
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                Fp32Fragment fp32;
                SplitFragment a[MT], b;
                read_fragment(fp32, read_b, from + TileA::BYTES, 0, step);
                split<Operand::B>(b, fp32);
#pragma unroll
                for (int i = 0; i < MT; ++i) {
                    read_fragment(fp32, read_a, from, i, step);
                    split<Operand::A>(a[i], fp32);
                }
#pragma unroll
                for (int j = 0; j < B_FRAGMENTS; ++j) {
                    if (j < B_FRAGMENTS - 1) read_fragment(fp32, read_b, from + TileA::BYTES, j + 1, step);
                    multiply(acc, j * 8, a, b, 0);
                    multiply(acc, j * 8 + 4, a, b, 1);
                    if (j < B_FRAGMENTS - 1) split<Operand::B>(b, fp32);
                }
            }
            from = after(from);
            to = after(to);
        }
    };
    if (K > 0) {
        if (!ALIGNED)
            run(CopyMode<Copy::ELEMENTWISE>());
        else if (c.holds(BM, BN) && K % TileA::BK == 0)
            run(CopyMode<Copy::FULL>());
        else
            run(CopyMode<Copy::GUARDED>());
    }

    scale_or_recompute(reinterpret_cast<float (&)[MT * B_FRAGMENTS * 8]>(acc), ACC_UNSCALE, [&](int index) {
        const int row = m0 + index / (B_FRAGMENTS * 8) * 16 + accumulator_row<false>(index / 2 % 2);
        const int col = n0 + index % (B_FRAGMENTS * 8) / 4 * 8 + threadIdx.x % 4 * 2 + index % 2;
        if (!c.inside(row, col)) return 0.0f;
        const StridedVector a = {A + (tile.row + row) * (TRANS_A ? 1 : lda), TRANS_A ? lda : 1};
        const StridedVector b = {B + (tile.col + col) * (TRANS_B ? ldb : 1), TRANS_B ? 1 : ldb};
        return fma_dot(a, b, K);
    });
    const auto epilogue = epilogue_at(tile.row, tile.col, alpha, beta, bias);
    store_tile<false, false>(c, m0, n0, acc, epilogue, c_aligned && c.holds(BM, BN));
}
