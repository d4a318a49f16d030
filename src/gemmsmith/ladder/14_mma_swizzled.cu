// 14 mma_swizzled: fragments by hand, and shared memory without conflicts.
//
// Idea      wmma hides which lane holds what, and so keeps its user from shared memory that suits
//           it. mma.sync states it (include/fragments.cuh), and ldmatrix brings eight rows of 16
//           bytes straight to where mma.sync wants them. The rows lie so that no two of the eight
//           share a bank: chunk c of row r is stored at c ^ mix(r) (include/swizzle.cuh).
// Changed   From 13: fragments are registers, padding is gone, the sums go from registers to C;
//           tf32 and int8 besides fp16 and bf16. Copies are cp.async, but nobody runs ahead yet.
// Owns      A block owns BM x BN outputs, a warp WM x WN, in 16 x 8 pieces of one mma.sync each:
//
// block 128 x 128        warp 64 x 64                   one mma.sync of 16 x 8 sums
// +-------+-------+      +--+--+--+--+--+--+--+--+
// | warp0 | warp1 |      |  |  |  |  |  |  |  |  |      A 16 x 32 bytes: 4 registers a lane
// +-------+-------+      +--+--+--+--+--+--+--+--+      B 32 bytes x 8: 2 registers
// | warp2 | warp3 |      |  |  |  |  |  |  |  |  |      4 sums a lane: two neighbours in row
// +-------+-------+      :  :  :  :  :  :  :  :  :      lane / 4, and two 8 rows below
//
// Budget    (BM + BN) * BK_BYTES of shared memory: 16 KB, whatever the type. WM * WN / 32 = 128
//           sums and 32 fragment registers a lane.
// Needs     sm_80. ALIGNED = 1 where rows of A and B start on 16 bytes (pointers, leading
//           dimensions and batch strides); ALIGNED = 0 anywhere, element by element. fp32 inputs are
//           taken as tf32: rounded to 10 fraction bits (ROUND = 1), or cut off there (ROUND = 0).
// Try next  The tensor cores idle while a slice arrives, and while fragments do: run ahead with
//           both (15 mma_pipelined).

#include "epilogue/store_fragments.cuh"
#include "tile/tile_copy.cuh"
#include "schedule/tile_order.cuh"

constexpr int WARPS_N = BN / WN;
constexpr int THREADS = 32 * (BM / WM) * WARPS_N;
constexpr int STEPS = BK_BYTES / 32;  // one mma.sync goes through 32 bytes of k
constexpr int MT = WM / 16;           // fragments of A a warp has
constexpr int NT = WN / 8;            // 16 x 8 sums in a row of the warp's tile
using TileA = SwizzledTile<IN, BM, BK_BYTES, !TRANS_A>;
using TileB = SwizzledTile<IN, BN, BK_BYTES, TRANS_B>;
using ReaderA = FragmentReader<Operand::A, TileA>;
using ReaderB = FragmentReader<Operand::B, TileB>;
using Sum = SumOf<IN>::type;
using Sums = Sum[MT][NT * 4];

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const IN* __restrict__ A, long long lda,
     const IN* __restrict__ B, long long ldb, float beta, OUT* C, long long ldc,
     const OUT* __restrict__ bias, long long strideA, long long strideB, long long strideC) {
    extern __shared__ __align__(128) unsigned char shared[];
    const unsigned tile_a = shared_address(shared);
    const unsigned tile_b = tile_a + TileA::BYTES;
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<BM, BN>(N);
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
                    for (int j = 0; j < NT; ++j) mma(&sums[i][j * 4], a[i], &b[j / 2][j % 2 * 2], TileA::Element());
            }
            __syncthreads();
        }
    };
    if (!ALIGNED)
        multiply(CopyMode<Copy::ELEMENTS>());
    else if (c.holds(BM, BN) && K % TileA::BK == 0)
        multiply(CopyMode<Copy::WHOLE>());
    else
        multiply(CopyMode<Copy::EDGES>());

    const auto finish = finish_at(tile.row, tile.col, alpha, beta, bias);
    store_tile<ReaderA::INTERLEAVED, ReaderB::INTERLEAVED>(c, m0, n0, sums, finish, vectors && c.holds(BM, BN));
}
