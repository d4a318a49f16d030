// 14 mma_swizzled: fragments by hand, and shared memory without bank conflicts.
//
// Idea      wmma hides which lane holds what, so shared memory cannot be laid out to suit it. mma.sync
//           documents it (fragments.cuh), and ldmatrix moves eight rows of 16 bytes straight into the
//           registers that mma.sync reads. The rows are swizzled so that no two of the eight share a
//           bank: chunk c of row r is stored at c ^ swizzle(r) (swizzle.cuh).
// Changed   From 13: fragments are registers, the padding is gone, and accumulators go from registers
//           to C. tf32 and int8 inputs besides fp16 and bf16. Copies are cp.async, but the kernel does
//           not copy ahead yet.
// Owns      A block owns BM x BN outputs, a warp WM x WN, in 16 x 8 tiles of one mma.sync each:
//
// block 128 x 128        warp 64 x 64                   one mma.sync: 16 x 8 accumulators
// +-------+-------+      +--+--+--+--+--+--+--+--+
// | warp0 | warp1 |      |  |  |  |  |  |  |  |  |      A 16 x 32 bytes: 4 registers per lane
// +-------+-------+      +--+--+--+--+--+--+--+--+      B 32 bytes x 8: 2 registers
// | warp2 | warp3 |      |  |  |  |  |  |  |  |  |      4 accumulators per lane: two adjacent in row
// +-------+-------+      :  :  :  :  :  :  :  :  :      lane / 4, and two 8 rows below
//
// Budget    (BM + BN) * BK_BYTES of shared memory: 16 KB, for every type. Per lane WM * WN / 32 = 128
//           accumulators and 32 fragment registers.
// Needs     sm_80. ALIGNED = 1: rows of A and B start on 16 bytes (pointers, leading dimensions and batch
//           strides). ALIGNED = 0: any alignment, one element at a time. fp32 inputs are used as tf32:
//           rounded to 10 fraction bits (ROUND = 1) or truncated (ROUND = 0).
// Try next  The tensor cores idle while a k-tile arrives, and while fragments are read. Copy and read
//           ahead (15 mma_pipelined).

#include "epilogue/store_fragments.cuh"
#include "schedule/tile_order.cuh"
#include "tile/swizzled_copy.cuh"

constexpr int WARPS_N = BN / WN;
constexpr int THREADS = 32 * (BM / WM) * WARPS_N;
constexpr int STEPS = BK_BYTES / 32;  // one mma.sync consumes 32 bytes of k
constexpr int MT = WM / 16;           // fragments of A per warp
constexpr int NT = WN / 8;            // 16 x 8 accumulator tiles in a row of the warp tile
using TileA = SwizzledTile<IN, BM, BK_BYTES, !TRANS_A>;
using TileB = SwizzledTile<IN, BN, BK_BYTES, TRANS_B>;
using ReaderA = FragmentReader<Operand::A, TileA>;
using ReaderB = FragmentReader<Operand::B, TileB>;
using Acc = AccumulatorOf<IN>::type;
using Accumulators = Acc[MT][NT * 4];

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const IN* __restrict__ A, long long lda,
     const IN* __restrict__ B, long long ldb, float beta, OUT* C, long long ldc,
     const OUT* __restrict__ bias, long long strideA, long long strideB, long long strideC) {
    extern __shared__ __align__(128) unsigned char shared[];
    const unsigned tile_a = shared_address(shared);
    const unsigned tile_b = tile_a + TileA::BYTES;
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<BM, BN>(N);
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
    const auto multiply = [&](auto mode) {
        for (int k = 0; k < K; k += TileA::BK) {
            copy_a.copy<decltype(mode)::value>(tile_a);
            copy_b.copy<decltype(mode)::value>(tile_b);
            copy_a.advance();
            copy_b.advance();
            cp_async_commit();
            cp_async_wait<0>();
            __syncthreads();

#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                unsigned a[MT][4], b[NT / 2][4];
#pragma unroll
                for (int i = 0; i < MT; ++i) read_a.load(a[i], tile_a, i, step);
#pragma unroll
                for (int j = 0; j < NT / 2; ++j) read_b.load(b[j], tile_b, j, step);
                round_to_tf32<IN, ROUND>(a);
                round_to_tf32<IN, ROUND>(b);
#pragma unroll
                for (int i = 0; i < MT; ++i)
#pragma unroll
                    for (int j = 0; j < NT; ++j) mma(&acc[i][j * 4], a[i], &b[j / 2][j % 2 * 2], TileA::Element());
            }
            __syncthreads();
        }
    };
    if (!ALIGNED)
        multiply(CopyMode<Copy::ELEMENTWISE>());
    else if (c.holds(BM, BN) && K % TileA::BK == 0)
        multiply(CopyMode<Copy::FULL>());
    else
        multiply(CopyMode<Copy::GUARDED>());

    const auto epilogue = epilogue_at(tile.row, tile.col, alpha, beta, bias);
    store_tile<ReaderA::INTERLEAVED, ReaderB::INTERLEAVED>(c, m0, n0, acc, epilogue, c_aligned && c.holds(BM, BN));
}
