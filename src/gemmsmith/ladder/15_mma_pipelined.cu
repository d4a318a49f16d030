// 15 mma_pipelined: the tensor cores never wait.
//
// Idea      Run ahead twice. STAGES slices are on their way through shared memory, as in 11; and
//           while one step of a slice is multiplied, the fragments of the next are read into a
//           second set of registers. The copies of a slice are spread over its steps, and the
//           barrier that hands the next slice over stands in the middle of the last step's
//           products, so that there is work to issue on both sides of it.
// Changed   From 14: the loop is a pipeline; blocks are numbered in groups (grouped_order.cuh).
// Owns      As 14: a block owns BM x BN outputs, a warp WM x WN. In time, for two steps a slice:
//
//   slice                i              |              i + 1
//   step            0          1        |         0            1
//   multiply      [  0   ] [  1  |  1 ] |     [    0    ] [   1   |  1 ]
//   read             [1]         | [0]  |         [1]             | [0]     fragments, a step ahead
//   copy          [i + 3 ]       |      |     [ i + 4   ]         |         slices, STAGES - 1 ahead
//                       wait for i + 1, barrier         wait for i + 2, barrier
//
// The copy of slice i + STAGES - 1 lands where slice i - 1 was, whose last fragments were read before
// the barrier of slice i - 1.
//
// Budget    STAGES * (BM + BN) * BK_BYTES of shared memory: 64 KB, whatever the type. WM * WN / 32 =
//           128 sums and 64 fragment registers a lane.
// Needs     sm_80. ALIGNED = 1 where rows of A and B start on 16 bytes (pointers, leading
//           dimensions and batch strides); ALIGNED = 0 anywhere, element by element and without
//           running ahead. fp32 inputs are taken as tf32: rounded to 10 fraction bits (ROUND = 1), or
//           cut off there (ROUND = 0). From sm_90 on ties go to even: one instruction instead of three.
// Try next  Hopper's own instructions: TMA copies, and wgmma reads shared memory by itself.

#include "schedule/grouped_order.cuh"
#include "epilogue/store_fragments.cuh"
#include "tile/tile_copy.cuh"

constexpr int WARPS_N = BN / WN;
constexpr int THREADS = 32 * (BM / WM) * WARPS_N;
constexpr int STEPS = BK_BYTES / 32;  // one mma.sync goes through 32 bytes of k
constexpr int PARTS = STEPS - 1;      // the copies are issued before the last step
// tf32 with k as the slow index is read in pairs as mma.sync's first operand only (fragments.cuh). Where B alone is
// stored so, B is the first: a warp computes the transpose of its tile, Bt * At.
constexpr bool FLIPPED = sizeof(IN) == 4 && !TRANS_A && !TRANS_B;
constexpr int MT = (FLIPPED ? WN : WM) / 16;  // fragments of the first operand a warp has
constexpr int NT = (FLIPPED ? WM : WN) / 8;   // 16 x 8 sums in a row of the warp's tile
static_assert(STEPS % 2 == 0, "two sets of fragments take turns");
using TileA = SwizzledTile<IN, BM, BK_BYTES, !TRANS_A>;
using TileB = SwizzledTile<IN, BN, BK_BYTES, TRANS_B>;
using ReaderA = FragmentReader<FLIPPED ? Operand::B : Operand::A, TileA, Words::PAIRED>;
using ReaderB = FragmentReader<FLIPPED ? Operand::A : Operand::B, TileB, Words::PAIRED>;
using Sum = SumOf<IN>::type;
using Sums = Sum[MT][NT * 4];
constexpr int STAGE = TileA::BYTES + TileB::BYTES;

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const IN* __restrict__ A, long long lda,
     const IN* __restrict__ B, long long ldb, float beta, OUT* C, long long ldc,
     const OUT* __restrict__ bias, long long strideA, long long strideB, long long strideC) {
    extern __shared__ __align__(128) unsigned char shared[];  // a ring of STAGES tiles of A and B
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
    unsigned a[2][WM / 16][4], b[2][WN / 16][4];
    const auto read = [&](int set, unsigned slice, int step) {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) read_a.load(a[set][i], slice, i, step);
#pragma unroll
        for (int j = 0; j < WN / 16; ++j) read_b.load(b[set][j], slice + TileA::BYTES, j, step);
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
                if constexpr (FLIPPED)
                    mma(&sums[i][j * 4], b[set][i], &a[set][j / 2][j % 2 * 2], TileA::Element());
                else
                    mma(&sums[i][j * 4], a[set][i], &b[set][j / 2][j % 2 * 2], TileA::Element());
            }
    };
    const auto run = [&](auto mode) {
        int left = K;  // not yet copied
        const auto copy = [&](unsigned slice, int part, int parts) {
            if (left > 0) {
                copy_a.copy<decltype(mode)::value>(slice, part, parts);
                copy_b.copy<decltype(mode)::value>(slice + TileA::BYTES, part, parts);
            }
            if (part < parts - 1) return;
            cp_async_commit();  // even an empty group: waiting counts groups, so every slice must have one
            left -= TileA::BK;
            copy_a.advance();
            copy_b.advance();
        };
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; ++stage) copy(ring + stage * STAGE, 0, 1);
        cp_async_wait<STAGES - 2>();
        __syncthreads();
        const auto after = [&](unsigned slice) { return slice == ring + (STAGES - 1) * STAGE ? ring : slice + STAGE; };
        unsigned from = ring, to = ring + (STAGES - 1) * STAGE;  // where slices are read and written
        read(0, from, 0);
        round(0);
        for (int k = K; k > 0; k -= TileA::BK) {
            // Behind the last slice there is none: what is read then is not used, but must exist.
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
                if (step < PARTS) copy(to, step, PARTS);
                multiply(set, last ? MT / 2 : 0, MT * 3 / 4);
                round(1 - set);  // while the products before it are under way
                multiply(set, MT * 3 / 4, MT);
            }
            from = next;
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

    const auto finish = finish_at(tile.row, tile.col, alpha, beta, bias);
    const bool whole = vectors && c.holds(BM, BN);
    if constexpr (FLIPPED)
        store_flipped_tile(c, m0, n0, sums, finish, whole);
    else
        store_tile<ReaderA::INTERLEAVED, ReaderB::INTERLEAVED>(c, m0, n0, sums, finish, whole);
}
