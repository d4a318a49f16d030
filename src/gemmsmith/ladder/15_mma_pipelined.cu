// 15 mma_pipelined: the tensor cores never wait.
//
// Idea      Run ahead at two levels. STAGES k-tiles are in flight through shared memory, as in 11. And
//           while one step of a k-tile is multiplied, the fragments of the next step are read into a
//           second set of registers. The copies of a k-tile are spread over its steps. The barrier
//           that hands over the next k-tile is in the middle of the last step's products, so that there
//           is work to issue on both sides of it.
// Changed   From 14: the loop is a pipeline; tiles are in grouped order (grouped_order.cuh).
// Owns      As 14: a block owns BM x BN outputs, a warp WM x WN. In time, for two steps per k-tile:
//
//   k-tile               i              |              i + 1
//   step            0          1        |         0            1
//   multiply      [  0   ] [  1  |  1 ] |     [    0    ] [   1   |  1 ]
//   read             [1]         | [0]  |         [1]             | [0]     fragments, one step ahead
//   copy          [i + 3 ]       |      |     [ i + 4   ]         |         k-tiles, STAGES - 1 ahead
//                       wait for i + 1, barrier         wait for i + 2, barrier
//
// k-tile i + STAGES - 1 is copied into the stage of k-tile i - 1, whose last fragments were read before
// the barrier of k-tile i - 1.
//
// Budget    STAGES * (BM + BN) * BK_BYTES of shared memory: 64 KB, for every type. Per lane WM * WN / 32 =
//           128 accumulators and 64 fragment registers.
// Needs     sm_80. ALIGNED = 1: rows of A and B start on 16 bytes (pointers, leading dimensions and batch
//           strides). ALIGNED = 0: any alignment, one element at a time and without copying ahead. fp32
//           inputs are used as tf32: rounded to 10 fraction bits (ROUND = 1) or truncated (ROUND = 0).
//           On sm_90 and newer, ties round to even: one instruction instead of three.
// Try next  Hopper's own instructions: TMA copies whole tiles, and wgmma reads shared memory itself (16
//           wgmma_tma).

#include "epilogue/store_fragments.cuh"
#include "schedule/grouped_order.cuh"
#include "tile/swizzled_copy.cuh"

constexpr int WARPS_N = BN / WN;
constexpr int THREADS = 32 * (BM / WM) * WARPS_N;
constexpr int STEPS = BK_BYTES / 32;   // one mma.sync consumes 32 bytes of k
constexpr int COPY_STEPS = STEPS - 1;  // copies are issued in all steps but the last
// tf32 that is not K-major can be read in pairs only as mma.sync's first operand (fragments.cuh). If only B is stored
// that way, B becomes the first operand: a warp computes the transpose of its tile, Bt * At.
constexpr bool TRANSPOSED = sizeof(IN) == 4 && !TRANS_A && !TRANS_B;
constexpr int MT = (TRANSPOSED ? WN : WM) / 16;  // fragments of the first operand per warp
constexpr int NT = (TRANSPOSED ? WM : WN) / 8;   // 16 x 8 accumulator tiles in a row of the warp tile
static_assert(STEPS % 2 == 0, "two sets of fragments alternate");
using TileA = SwizzledTile<IN, BM, BK_BYTES, !TRANS_A>;
using TileB = SwizzledTile<IN, BN, BK_BYTES, TRANS_B>;
using ReaderA = FragmentReader<TRANSPOSED ? Operand::B : Operand::A, TileA, Words::PAIRED>;
using ReaderB = FragmentReader<TRANSPOSED ? Operand::A : Operand::B, TileB, Words::PAIRED>;
using Acc = AccumulatorOf<IN>::type;
using Accumulators = Acc[MT][NT * 4];
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const IN* __restrict__ A, long long lda,
     const IN* __restrict__ B, long long ldb, float beta, OUT* C, long long ldc,
     const OUT* __restrict__ bias, long long strideA, long long strideB, long long strideC) {
    extern __shared__ __align__(128) unsigned char shared[];  // a ring of STAGES k-tiles of A and B
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
    unsigned a[2][WM / 16][4], b[2][WN / 16][4];
    const auto read = [&](int set, unsigned stage, int step) {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) read_a.load(a[set][i], stage, i, step);
#pragma unroll
        for (int j = 0; j < WN / 16; ++j) read_b.load(b[set][j], stage + TileA::BYTES, j, step);
    };
    const auto round = [&](int set) {
        round_to_tf32<IN, ROUND>(a[set]);
        round_to_tf32<IN, ROUND>(b[set]);
    };
    const auto multiply = [&](int set, int from, int to) {
#pragma unroll
        for (int i = 0; i < MT; ++i)
#pragma unroll
            for (int j = 0; j < NT; ++j) {
                if (i < from || i >= to) continue;
                if constexpr (TRANSPOSED)
                    mma(&acc[i][j * 4], b[set][i], &a[set][j / 2][j % 2 * 2], TileA::Element());
                else
                    mma(&acc[i][j * 4], a[set][i], &b[set][j / 2][j % 2 * 2], TileA::Element());
            }
    };
    const auto run = [&](auto mode) {
        int left = K;  // not yet copied
        const auto copy = [&](unsigned stage, int portion, int portions) {
            if (left > 0) {
                copy_a.copy<decltype(mode)::value>(stage, portion, portions);
                copy_b.copy<decltype(mode)::value>(stage + TileA::BYTES, portion, portions);
            }
            if (portion < portions - 1) return;
            cp_async_commit();  // even an empty group: cp_async_wait counts groups, so every k-tile must have one
            left -= TileA::BK;
            copy_a.advance();
            copy_b.advance();
        };
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; ++stage) copy(ring + stage * STAGE_BYTES, 0, 1);
        cp_async_wait<STAGES - 2>();
        __syncthreads();
        const auto after = [&](unsigned stage) {
            return stage == ring + (STAGES - 1) * STAGE_BYTES ? ring : stage + STAGE_BYTES;
        };
        unsigned from = ring, to = ring + (STAGES - 1) * STAGE_BYTES;  // the stages being read and written
        read(0, from, 0);
        round(0);
        for (int k = K; k > 0; k -= TileA::BK) {
            // After the last k-tile there is none: fragments are still read, from valid memory, and not used.
            const unsigned next = k > TileA::BK ? after(from) : from;
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                const int set = step % 2;
                const bool last = step == STEPS - 1;
                if (last) {
                    multiply(set, 0, MT / 2);
                    cp_async_wait<STAGES - 2>();
                    __syncthreads();
                }
                read(1 - set, last ? next : from, (step + 1) % STEPS);
                if (step < COPY_STEPS) copy(to, step, COPY_STEPS);
                multiply(set, last ? MT / 2 : 0, MT * 3 / 4);
                round(1 - set);  // while the products before it run
                multiply(set, MT * 3 / 4, MT);
            }
            from = next;
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

    const auto epilogue = epilogue_at(tile.row, tile.col, alpha, beta, bias);
    const bool whole = c_aligned && c.holds(BM, BN);
    if constexpr (TRANSPOSED)
        store_transposed_tile(c, m0, n0, acc, epilogue, whole);
    else
        store_tile<ReaderA::INTERLEAVED, ReaderB::INTERLEAVED>(c, m0, n0, acc, epilogue, whole);
}
