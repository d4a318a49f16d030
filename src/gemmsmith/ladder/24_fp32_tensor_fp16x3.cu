// 24 fp32_tensor_fp16x3: fp32 products by three on tensor cores, where the data allow it.
//
// Idea      Two fp16 numbers hold as much of an fp32 number as matters, if its whole line along k has
//           been brought near the upper end of fp16's range: three products instead of six. A launch
//           before this one has done so, has written both parts of A and B into planes, and has
//           looked whether small numbers of a line were worth more than fp16 could keep of them
//           (split_fp16.cu). If they were, this kernel returns at once, and 22 computes the product.
// Changed   From 22: operands arrive split, so that no warp splits what its neighbour has split already;
//           slices are twice as deep for the same bytes, and of two planes an operand. Planes start
//           on 16 bytes, whatever the operands do. Sums are multiplied by the powers of two of
//           their row and column at the end. Infinities and NaN never come here.
// Owns      As 22: a block owns BM x BN outputs, a warp WM x WN. In time, for WN = 64 and one step:
//
//   columns of B              0..15     16..31    32..47    48..63
//   multiply      [        ] [   0   ] [   1   ] [   2   ] [   3   ]      l h', h h', h l'
//   read          [A, B 0  ] [B 1    ] [B 2    ] [B 3    ]                h and l
//   copy          [i + STAGES - 1 ...                                     both planes of A and B
//
// Budget    STAGES * 2 * (BM + BN) * BK_BYTES of shared memory: 96 KB. A lane has WM * WN / 32 = 64 sums,
//           8 registers of A's parts for 16 rows by 16 of k, and 8 of B's.
//           A workspace of 4 bytes a number of A and B, as much as they take themselves.
// Needs     sm_80. Planes and exponents as split_fp16.cu leaves them.
// Try next  wgmma reads all of this from shared memory by itself.

#include "tile/split_fp16.cuh"
#include "schedule/grouped_order.cuh"
#include "epilogue/store_fragments.cuh"
#include "tile/tile_copy.cuh"

constexpr int WARPS_N = BN / WN;
constexpr int THREADS = 32 * (BM / WM) * WARPS_N;
constexpr int DEPTH = PROMOTE / 16;  // one mma.sync goes through 16 of k
constexpr int STEPS = BK_BYTES / 2 / PROMOTE;
constexpr int MT = WM / 16;          // fragments of A a warp has,
constexpr int GROUPS = WN / 16;      // and of B, one multiplied after another
constexpr int AT_ONCE = MT > 2 ? STEPS : 1;  // unrolled, of small tiles: the compiler reads too far ahead, and spills
static_assert(STEPS > 0, "a slice has at least one step");
using TileA = SwizzledTile<__half, BM, BK_BYTES, !TRANS_A>;
using TileB = SwizzledTile<__half, BN, BK_BYTES, TRANS_B>;
using ReaderA = FragmentReader<Operand::A, TileA>;
using ReaderB = FragmentReader<Operand::B, TileB>;
using Sums = float[MT][GROUPS * 8];
using Parts = unsigned[DEPTH][2][4];  // h and l of a fragment
constexpr int AT_B = 2 * TileA::BYTES;  // in a slice: both parts of A, then of B
constexpr int STAGE = AT_B + 2 * TileB::BYTES;

template <class Reader>
__device__ __forceinline__ void read_parts(Parts& parts, const Reader& reader, unsigned slice, int bytes, int index,
                                           int step) {
#pragma unroll
    for (int d = 0; d < DEPTH; ++d)
#pragma unroll
        for (int p = 0; p < 2; ++p) reader.load(parts[d][p], slice + p * bytes, index, step * DEPTH + d);
}

// Adds the products of PROMOTE of k: all rows of a warp by 8 of the 16 columns of b.
__device__ __forceinline__ void multiply(Sums& sums, int column, const Parts (&a)[MT], const Parts& b, int half) {
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
            sums[i][column + j] = __fadd_rn(sums[i][column + j], __fadd_rn(large[i][j], small[i][j]));
}

// Multiplies the sums of a warp, whose tile begins at (row, col) of C, by the powers of two of their rows and columns.
// The loop is rolled, or the compiler would keep all of its numbers at once: registers cannot be indexed, so the sums
// of a row move up by four each time, and are back in their places at the end.
__device__ __forceinline__ void scale_back(Sums& sums, const Exponents& exponents, int row, int col, int last_row,
                                           int last_col) {
    const int first = threadIdx.x % 4 * 2;
    int of_rows[MT * 2];
#pragma unroll
    for (int i = 0; i < MT * 2; ++i)
        of_rows[i] = exponents.a[min(row + i / 2 * 16 + sum_row<false>(i % 2), last_row)];
#pragma unroll 1
    for (int j = 0; j < GROUPS * 2; ++j) {
        float done[MT][4];
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const int of_column = exponents.b[min(col + j * 8 + first + side, last_col)];
#pragma unroll
            for (int i = 0; i < MT * 2; ++i)
                done[i / 2][i % 2 * 2 + side] = scaled_back(sums[i / 2][i % 2 * 2 + side], -of_rows[i] - of_column);
        }
#pragma unroll
        for (int i = 0; i < MT; ++i) {
#pragma unroll
            for (int s = 4; s < GROUPS * 8; ++s) sums[i][s - 4] = sums[i][s];
#pragma unroll
            for (int s = 0; s < 4; ++s) sums[i][GROUPS * 8 - 4 + s] = done[i][s];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const __half* __restrict__ A, long long lda,
     const __half* __restrict__ B, long long ldb, float beta, float* C, long long ldc,
     const float* __restrict__ bias, long long strideA, long long strideB, long long strideC, const int* workspace) {
    extern __shared__ __align__(128) unsigned char shared[];  // a ring of STAGES slices
    const unsigned ring = shared_address(shared);
    drop_empty_product(K, alpha);
    if (K > 0 && !fp16_accepted(workspace)) return;
    const Tile tile = grouped_tile<BM, BN, GROUP>(M, N);
    const bool vectors = vectors_fit<4>(C, ldc) && strideC % 4 == 0;
    A += blockIdx.z * strideA;
    B += blockIdx.z * strideB;
    C += blockIdx.z * strideC;
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const __half* const low_a = A + lda * (TRANS_A ? K : M);
    const __half* const low_b = B + ldb * (TRANS_B ? N : K);
    TileCopy<TileA, THREADS> copy_a[2] = {{A, lda, tile.row, M, K}, {low_a, lda, tile.row, M, K}};
    TileCopy<TileB, THREADS> copy_b[2] = {{B, ldb, tile.col, N, K}, {low_b, ldb, tile.col, N, K}};
    const int m0 = threadIdx.x / 32 / WARPS_N * WM;
    const int n0 = threadIdx.x / 32 % WARPS_N * WN;
    const ReaderA read_a(m0);
    const ReaderB read_b(n0);

    Sums sums = {};
    const auto run = [&](auto mode) {
        int left = K;  // not yet copied
        const auto copy = [&](unsigned slice) {
#pragma unroll
            for (int p = 0; p < 2; ++p) {
                if (left > 0) {
                    copy_a[p].copy<decltype(mode)::value>(slice + p * TileA::BYTES);
                    copy_b[p].copy<decltype(mode)::value>(slice + AT_B + p * TileB::BYTES);
                }
                copy_a[p].advance();
                copy_b[p].advance();
            }
            cp_async_commit();  // even an empty group: waiting counts groups, so every slice must have one
            left -= TileA::BK;
        };
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; ++stage) copy(ring + stage * STAGE);
        const auto after = [&](unsigned slice) { return slice == ring + (STAGES - 1) * STAGE ? ring : slice + STAGE; };
        unsigned from = ring, to = ring + (STAGES - 1) * STAGE;  // where slices are read and written
        for (int k = K; k > 0; k -= TileA::BK) {
            cp_async_wait<STAGES - 2>();
            __syncthreads();
            copy(to);
#pragma unroll AT_ONCE
            for (int step = 0; step < STEPS; ++step) {
                Parts a[MT], b[2];  // fragments of B take turns: one is read while the other is multiplied
                read_parts(b[0], read_b, from + AT_B, TileB::BYTES, 0, step);
#pragma unroll
                for (int i = 0; i < MT; ++i) read_parts(a[i], read_a, from, TileA::BYTES, i, step);
#pragma unroll
                for (int group = 0; group < GROUPS; ++group) {
                    if (group < GROUPS - 1)
                        read_parts(b[(group + 1) % 2], read_b, from + AT_B, TileB::BYTES, group + 1, step);
                    multiply(sums, group * 8, a, b[group % 2], 0);
                    multiply(sums, group * 8 + 4, a, b[group % 2], 1);
                }
            }
            from = after(from);
            to = after(to);
        }
    };
    if (K > 0) {
        if (c.holds(BM, BN) && K % TileA::BK == 0)
            run(CopyMode<Copy::WHOLE>());
        else
            run(CopyMode<Copy::EDGES>());

        scale_back(sums, exponents_at(workspace, M, N, blockIdx.z, gridDim.z, strideA, strideB), tile.row + m0,
                   tile.col + n0, M - 1, N - 1);
    }
    const auto finish = finish_at(tile.row, tile.col, alpha, beta, bias);
    store_tile<false, false>(c, m0, n0, sums, finish, vectors && c.holds(BM, BN));
}
