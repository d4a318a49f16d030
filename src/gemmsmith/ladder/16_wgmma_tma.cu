// 16 wgmma_tma: copies and products that keep no thread busy.
//
// Idea      Hopper's TMA copies whole boxes of A and B when one thread requests them, and wgmma reads its operands from
//           shared memory itself. So threads neither compute addresses nor hold fragments: a k-tile is two or three TMA
//           instructions of one thread and four wgmma instructions of each warpgroup (128 threads).
// Changed   From 15: no cp.async, no ldmatrix, no swizzle arithmetic; the box layout of tma.cuh replaces them. A k-tile
//           has arrived when its mbarrier has counted all its bytes.
// Owns      A block owns BM x BN outputs; each warpgroup owns 64 rows of them. A k-tile is 64 of k, 128 bytes per row:
//
//              A: BM rows x 64 of k        B: 64 of k x BN columns       (each may be stored either way)
//
// Budget    STAGES * (BM + BN) * 128 bytes of shared memory; BN / 2 accumulators per thread.
// Needs     sm_90a. Rows of A and B start on 16 bytes.
// Try next  All warpgroups stop at a barrier before the next k-tile is requested. Let a separate warpgroup do the loads
//           (17 wgmma_specialized).

#include "epilogue/direct_store.cuh"
#include "ptx/pdl.cuh"
#include "schedule/grouped_order.cuh"
#include "tile/warpgroup.cuh"

constexpr int THREADS = WARPGROUP_THREADS * (BM / 64);
using TileA = OperandTile<BM, !TRANS_A>;
using TileB = OperandTile<BN, TRANS_B>;
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     float beta, OUT* C, long long ldc, const OUT* __restrict__ bias, long long strideA, long long strideB,
     long long strideC) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned stages = shared_address(shared), full = stages + STAGES * STAGE_BYTES;
    const KTileRange range = k_tile_range(K, alpha);
    const int z = blockIdx.z, steps = range.end - range.begin;
    const Tile tile = grouped_tile<BM, BN, 8>(M, N);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) mbarrier_init(full + 8 * i, 1);
        mbarrier_init_fence();
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
    }
    __syncthreads();
    pdl_launch_and_wait();

    const auto load = [&](int step) {  // called by one thread
        const unsigned stage = stages + step % STAGES * STAGE_BYTES, barrier = full + step % STAGES * 8;
        const int k = (range.begin + step) * BK;
        mbarrier_arrive_expect_tx(barrier, STAGE_BYTES);
        TileA::load(stage, map_a, barrier, tile.row, k, strideA ? z : 0);
        TileB::load(stage + TileA::BYTES, map_b, barrier, tile.col, k, strideB ? z : 0);
    };
    if (threadIdx.x == 0)
        for (int step = 0; step < min(STAGES, steps); ++step) load(step);
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS;
    float acc[1][BN / 2];
    Ring<STAGES> ring;
    for (int step = 0; step < steps; ++step) {
        mbarrier_wait(full + 8 * ring.stage, ring.parity);
        wgmma_stage<IN, TileA, TileB, BN>(acc, stages + ring.stage * STAGE_BYTES, warpgroup, step > 0);
        wgmma_wait<0>();
        __syncthreads();  // all warpgroups have read the stage: it may be refilled
        if (threadIdx.x == 0 && step + STAGES < steps) load(step + STAGES);
        ring.advance();
    }

    const auto c = window(C + z * strideC, ldc, M, N, tile.row, tile.col);
    const bool whole = vectors_fit<2>(C, ldc) && strideC % 2 == 0 && c.holds(BM, BN);
    with_or_without_c(epilogue_at(tile.row, tile.col, alpha, beta, bias),
                      [&](const Epilogue<OUT>& epilogue, auto) {
                          store_accumulators_direct<BN>(c, warpgroup * 64, acc, epilogue, whole);
                      });
}
