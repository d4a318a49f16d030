// 24 fp32_tensor_fp16x3: fp32 products from three fp16 products, where the data allow it.
//
// Idea      Two fp16 numbers hold as much of an fp32 number as matters, if its whole row of A or column of
//           B has been scaled close to the upper end of fp16's range: three products instead of six. The
//           prologue has scaled and split A and B into planes of fp16 terms, and has checked whether
//           small numbers of a line carry more weight than fp16 can hold (split_fp16.cu). If they do,
//           this kernel returns at once, and 22 computes the product.
// Changed   From 22: operands arrive split, so no warp splits what another has split already. k-tiles are
//           twice as deep for the same bytes, with two planes per operand. Planes start on 16 bytes,
//           whatever the operands' alignment. At the end, accumulators are multiplied by the powers of
//           two of their row and column. Infinities and NaN never get here.
// Owns      As 22: a block owns BM x BN outputs, a warp WM x WN. In time, for WN = 64 and one step:
//
//   columns of B              0..15     16..31    32..47    48..63
//   multiply      [        ] [   0   ] [   1   ] [   2   ] [   3   ]      l h', h h', h l'
//   read          [A, B 0  ] [B 1    ] [B 2    ] [B 3    ]                h and l
//   copy          [i + STAGES - 1 ...                                     both planes of A and B
//
// Budget    STAGES * 2 * (BM + BN) * BK_BYTES of shared memory: 96 KB. Per lane WM * WN / 32 = 64
//           accumulators, 8 registers for the terms of A (16 rows by 16 of k) and 8 for those of B.
//           A workspace of 4 bytes per number of A and B, as much as they take themselves.
// Needs     sm_80. Planes and exponents as split_fp16.cu writes them.
// Try next  wgmma reads all of this from shared memory itself (26 fp32_wgmma_fp16x3).

#include "epilogue/store_fragments.cuh"
#include "schedule/grouped_order.cuh"
#include "tile/split_fp16.cuh"
#include "tile/swizzled_copy.cuh"

constexpr int WARPS_N = BN / WN;
constexpr int THREADS = 32 * (BM / WM) * WARPS_N;
constexpr int DEPTH = PROMOTE / 16;   // one mma.sync consumes 16 of k
constexpr int STEPS = BK_BYTES / 2 / PROMOTE;
constexpr int MT = WM / 16;           // fragments of A per warp
constexpr int B_FRAGMENTS = WN / 16;  // and of B, multiplied one after another
// Small tiles are not unrolled: the compiler would read too far ahead, and spill.
constexpr int UNROLLED = MT > 2 ? STEPS : 1;
static_assert(STEPS > 0, "a k-tile has at least one step");
using TileA = SwizzledTile<__half, BM, BK_BYTES, !TRANS_A>;
using TileB = SwizzledTile<__half, BN, BK_BYTES, TRANS_B>;
using ReaderA = FragmentReader<Operand::A, TileA>;
using ReaderB = FragmentReader<Operand::B, TileB>;
using Accumulators = float[MT][B_FRAGMENTS * 8];
using SplitFragment = unsigned[DEPTH][2][4];  // h and l of a fragment
constexpr int B_OFFSET = 2 * TileA::BYTES;    // in a stage: both planes of A, then both of B
constexpr int STAGE_BYTES = B_OFFSET + 2 * TileB::BYTES;

template <class Reader>
__device__ __forceinline__ void read_terms(SplitFragment& terms, const Reader& reader, unsigned planes, int bytes,
                                           int index, int step) {
#pragma unroll
    for (int d = 0; d < DEPTH; ++d)
#pragma unroll
        for (int p = 0; p < 2; ++p) reader.load(terms[d][p], planes + p * bytes, index, step * DEPTH + d);
}

// Adds the products of PROMOTE of k: all rows of a warp by 8 of the 16 columns of b.
__device__ __forceinline__ void multiply(Accumulators& acc, int column, const SplitFragment (&a)[MT],
                                         const SplitFragment& b, int half) {
    float large[MT][4] = {}, small[MT][4] = {};
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
        for (int i = 0; i < MT; ++i) mma(small[i], a[i][d][1], &b[d][0][half * 2], __half());
#pragma unroll
        for (int i = 0; i < MT; ++i) mma(large[i], a[i][d][0], &b[d][0][half * 2], __half());
#pragma unroll
        for (int i = 0; i < MT; ++i) mma(small[i], a[i][d][0], &b[d][1][half * 2], __half());
    }
#pragma unroll
    for (int i = 0; i < MT; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            acc[i][column + j] = __fadd_rn(acc[i][column + j], __fadd_rn(large[i][j], small[i][j]));
}

// Multiplies the accumulators of a warp, whose tile begins at (row, col) of C, by the powers of two of their rows and
// columns. The loop is rolled, or the compiler would hold all exponents at once. Registers cannot be indexed, so the
// accumulators of a row rotate by four positions per iteration; at the end each is back in its place.
__device__ __forceinline__ void unscale_warp_tile(Accumulators& acc, const Exponents& exponents, int row, int col,
                                                  int last_row, int last_col) {
    const int first = threadIdx.x % 4 * 2;
    int row_exponents[MT * 2];
#pragma unroll
    for (int i = 0; i < MT * 2; ++i)
        row_exponents[i] = exponents.a[min(row + i / 2 * 16 + accumulator_row<false>(i % 2), last_row)];
#pragma unroll 1
    for (int j = 0; j < B_FRAGMENTS * 2; ++j) {
        float done[MT][4];
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const int col_exponent = exponents.b[min(col + j * 8 + first + side, last_col)];
#pragma unroll
            for (int i = 0; i < MT * 2; ++i)
                done[i / 2][i % 2 * 2 + side] = unscale(acc[i / 2][i % 2 * 2 + side], -row_exponents[i] - col_exponent);
        }
#pragma unroll
        for (int i = 0; i < MT; ++i) {
#pragma unroll
            for (int s = 4; s < B_FRAGMENTS * 8; ++s) acc[i][s - 4] = acc[i][s];
#pragma unroll
            for (int s = 0; s < 4; ++s) acc[i][B_FRAGMENTS * 8 - 4 + s] = done[i][s];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const __half* __restrict__ A, long long lda,
     const __half* __restrict__ B, long long ldb, float beta, float* C, long long ldc,
     const float* __restrict__ bias, long long strideA, long long strideB, long long strideC, const int* workspace) {
    extern __shared__ __align__(128) unsigned char shared[];  // a ring of STAGES k-tiles
    const unsigned ring = shared_address(shared);
    drop_empty_product(K, alpha);
    if (K > 0 && !fp16_accepted(workspace)) return;
    const Tile tile = grouped_tile<BM, BN, GROUP>(M, N);
    const bool c_aligned = vectors_fit<4>(C, ldc) && strideC % 4 == 0;
    A += blockIdx.z * strideA;
    B += blockIdx.z * strideB;
    C += blockIdx.z * strideC;
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const __half* const low_a = A + lda * (TRANS_A ? K : M);
    const __half* const low_b = B + ldb * (TRANS_B ? N : K);
    SwizzledCopy<TileA, THREADS> copy_a[2] = {{A, lda, tile.row, M, K}, {low_a, lda, tile.row, M, K}};
    SwizzledCopy<TileB, THREADS> copy_b[2] = {{B, ldb, tile.col, N, K}, {low_b, ldb, tile.col, N, K}};
    const int m0 = threadIdx.x / 32 / WARPS_N * WM;
    const int n0 = threadIdx.x / 32 % WARPS_N * WN;
    const ReaderA read_a(m0);
    const ReaderB read_b(n0);

    Accumulators acc = {};
    const auto run = [&](auto mode) {
        int left = K;  // not yet copied
        const auto copy = [&](unsigned stage) {
#pragma unroll
            for (int p = 0; p < 2; ++p) {
                if (left > 0) {
                    copy_a[p].copy<decltype(mode)::value>(stage + p * TileA::BYTES);
                    copy_b[p].copy<decltype(mode)::value>(stage + B_OFFSET + p * TileB::BYTES);
                }
                copy_a[p].advance();
                copy_b[p].advance();
            }
            cp_async_commit();  // even an empty group: cp_async_wait counts groups, so every k-tile must have one
            left -= TileA::BK;
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
#pragma unroll UNROLLED
            for (int step = 0; step < STEPS; ++step) {
                SplitFragment a[MT], b[2];  // of B, one fragment is read while the other is multiplied
                read_terms(b[0], read_b, from + B_OFFSET, TileB::BYTES, 0, step);
#pragma unroll
                for (int i = 0; i < MT; ++i) read_terms(a[i], read_a, from, TileA::BYTES, i, step);
#pragma unroll
                for (int j = 0; j < B_FRAGMENTS; ++j) {
                    if (j < B_FRAGMENTS - 1)
                        read_terms(b[(j + 1) % 2], read_b, from + B_OFFSET, TileB::BYTES, j + 1, step);
                    multiply(acc, j * 8, a, b[j % 2], 0);
                    multiply(acc, j * 8 + 4, a, b[j % 2], 1);
                }
            }
            from = after(from);
            to = after(to);
        }
    };
    if (K > 0) {
        if (c.holds(BM, BN) && K % TileA::BK == 0)
            run(CopyMode<Copy::FULL>());
        else
            run(CopyMode<Copy::GUARDED>());

        unscale_warp_tile(acc, exponents_at(workspace, M, N, blockIdx.z, gridDim.z, strideA, strideB), tile.row + m0,
                          tile.col + n0, M - 1, N - 1);
    }
    const auto epilogue = epilogue_at(tile.row, tile.col, alpha, beta, bias);
    store_tile<false, false>(c, m0, n0, acc, epilogue, c_aligned && c.holds(BM, BN));
}
