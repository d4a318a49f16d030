// 17 wgmma_specialized: one warpgroup loads, the others multiply.
//
// Idea      A producer warpgroup only requests k-tiles, as far ahead as there are stages. Consumer warpgroups only
//           multiply. They synchronise at two mbarriers per stage, "full" and "empty", and nowhere else. No warpgroup
//           waits for another one to finish a k-tile, and the wgmmas of one k-tile run while the next is awaited. The
//           producer gives most of its registers to the consumers (setmaxnreg).
// Changed   From 16: no __syncthreads in the loop; a consumer warpgroup may own more than 64 rows.
// Owns      A block owns BM x BN outputs, a consumer warpgroup BM / CONSUMERS rows of them. In time:
//
//              producer      load 0  load 1  load 2  load 3   . wait empty 0 .  load 4  . wait empty 1 .  load 5
//              consumers     . wait full 0 .  [ multiply 0 ][ multiply 1 ][ multiply 2 ]
//                                               release 0 ^  release 1 ^
//
// Budget    STAGES * (BM + BN) * 128 bytes of shared memory; BM / CONSUMERS * BN / 128 accumulators per thread of a
//           consumer.
// Needs     sm_90a. Rows of A and B start on 16 bytes.
// Try next  While a block stores its outputs, nothing multiplies, and each block starts with empty stages. Let a block
//           compute several tiles (18 wgmma_persistent).

#include "epilogue/direct_store.cuh"
#include "ptx/pdl.cuh"
#include "schedule/grouped_order.cuh"
#include "tile/warpgroup.cuh"

constexpr int M_TILES = BM / CONSUMERS / 64;  // 64-row tiles per consumer warpgroup
constexpr int THREADS = WARPGROUP_THREADS * (CONSUMERS + 1);
using TileA = OperandTile<BM, !TRANS_A>;
using TileB = OperandTile<BN, TRANS_B>;
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     float beta, OUT* C, long long ldc, const OUT* __restrict__ bias, long long strideA, long long strideB,
     long long strideC) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned stages = shared_address(shared), full = stages + STAGES * STAGE_BYTES, empty = full + 8 * STAGES;
    const KTileRange range = k_tile_range(K, alpha);
    const int z = blockIdx.z;
    const Tile tile = grouped_tile<BM, BN, 8>(M, N);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + 8 * i, 1);
            mbarrier_init(empty + 8 * i, CONSUMERS);
        }
        mbarrier_init_fence();
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
    }
    __syncthreads();
    pdl_launch_and_wait();

    Ring<STAGES> ring;
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS;
    if (warpgroup == 0) {  // the producer
        producer_dealloc_registers<CONSUMERS, M_TILES * BN / 2>();
        if (threadIdx.x == 0)
            for (int k = range.begin; k < range.end; ++k) {
                const unsigned stage = stages + ring.stage * STAGE_BYTES, barrier = full + 8 * ring.stage;
                mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
                mbarrier_arrive_expect_tx(barrier, STAGE_BYTES);
                TileA::load(stage, map_a, barrier, tile.row, k * BK, strideA ? z : 0);
                TileB::load(stage + TileA::BYTES, map_b, barrier, tile.col, k * BK, strideB ? z : 0);
                ring.advance();
            }
    } else {  // a consumer
        consumer_alloc_registers<CONSUMERS, M_TILES * BN / 2>();
        const int first = (warpgroup - 1) * M_TILES;  // this consumer's first 64-row tile
        float acc[M_TILES][BN / 2];
        const auto release = [&](int stage) {
            if (threadIdx.x % WARPGROUP_THREADS == 0) mbarrier_arrive(empty + 8 * stage);
        };
        consumer_mainloop<IN, TileA, TileB, BN>(acc, ring, stages, full, range.end - range.begin, first, release);
        const auto c = window(C + z * strideC, ldc, M, N, tile.row, tile.col);
        const bool whole = vectors_fit<2>(C, ldc) && strideC % 2 == 0 && c.holds(BM, BN);
        with_or_without_c(epilogue_at(tile.row, tile.col, alpha, beta, bias),
                          [&](const Epilogue<OUT>& epilogue, auto) {
                              store_accumulators_direct<BN>(c, first * 64, acc, epilogue, whole);
                          });
    }
}
