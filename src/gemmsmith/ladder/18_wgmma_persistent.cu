// 18 wgmma_persistent: one block per SM instead of one per tile.
//
// Idea      As many blocks as SMs are launched, and each computes several tiles. The producer does not stop at the end
//           of a tile: while consumers run the epilogue of one tile, the first k-tiles of the next arrive. And outputs
//           leave through shared memory and TMA (stmatrix, TMA store), which writes them while the next tile is
//           multiplied.
// Changed   From 17: a loop over tiles, in an order that keeps blocks that run at the same time close together in A and
//           B; where STORE_MODE is not direct, outputs are staged in shared memory (store.cuh).
// Owns      A block owns tiles number blockIdx.x, + gridDim.x, + 2 gridDim.x ...; a consumer warpgroup owns
//           BM / CONSUMERS rows of a tile. In time, on 132 SMs:
//
//              producer      | k-tiles of tile 0 | k-tiles of tile 132 | ...
//              consumers           | multiply 0 | epilogue | multiply 132 | epilogue |
//              TMA                                   | store 0 |               | store 132 |
//
// Budget    STAGES * (BM + BN) * 128 bytes for k-tiles, and BOXES boxes of 64 rows for each consumer's outputs.
// Needs     sm_90a; rows of A, B (and of C, if STORE_MODE is tma) that start on 16 bytes.
// Try next  Blocks on neighbouring SMs fetch the same k-tiles from L2: fetch them once (19 wgmma_cluster).

#include "epilogue/store.cuh"
#include "ptx/pdl.cuh"
#include "schedule/grouped_order.cuh"

constexpr int M_TILES = BM / CONSUMERS / 64;  // 64-row tiles per consumer warpgroup
constexpr int THREADS = WARPGROUP_THREADS * (CONSUMERS + 1);
using TileA = OperandTile<BM, !TRANS_A>;
using TileB = OperandTile<BN, TRANS_B>;
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     float beta, OUT* C, long long ldc, const __grid_constant__ TensorMap map_c, const OUT* __restrict__ bias,
     long long strideA, long long strideB, long long strideC, int batch) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned stages = shared_address(shared);
    const unsigned staging = stages + STAGES * STAGE_BYTES;
    const unsigned full = staging + CONSUMERS * BOXES * STORE_BOX<BN>, empty = full + 8 * STAGES;
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

    const unsigned tiles_m = (M - 1) / BM + 1, tiles_n = (N - 1) / BN + 1, tiles = tiles_m * tiles_n * batch;
    const KTileRange range = k_tile_range(K, alpha);
    const auto for_each_tile = [&](const auto& body) {
        for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) {
            const unsigned z = t / (tiles_m * tiles_n);
            const TileCoord coord = grouped_tile_coord<GROUP>(t - z * tiles_m * tiles_n, tiles_m, tiles_n);
            body(static_cast<int>(coord.m * BM), static_cast<int>(coord.n * BN), static_cast<int>(z));
        }
    };
    Ring<STAGES> ring;
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS;
    if (warpgroup == 0) {  // the producer
        producer_dealloc_registers<CONSUMERS, M_TILES * BN / 2>();
        if (threadIdx.x == 0)
            for_each_tile([&](int row, int col, int z) {
                for (int k = range.begin; k < range.end; ++k) {
                    const unsigned stage = stages + ring.stage * STAGE_BYTES, barrier = full + 8 * ring.stage;
                    mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
                    mbarrier_arrive_expect_tx(barrier, STAGE_BYTES);
                    TileA::load(stage, map_a, barrier, row, k * BK, strideA ? z : 0);
                    TileB::load(stage + TileA::BYTES, map_b, barrier, col, k * BK, strideB ? z : 0);
                    ring.advance();
                }
            });
    } else {  // a consumer
        consumer_alloc_registers<CONSUMERS, M_TILES * BN / 2>();
        const int first = (warpgroup - 1) * M_TILES;  // this consumer's first 64-row tile
        const auto release = [&](int stage) {
            if (threadIdx.x % WARPGROUP_THREADS == 0) mbarrier_arrive(empty + 8 * stage);
        };
        const bool pairs = vectors_fit<2>(C, ldc) && strideC % 2 == 0;
        float acc[M_TILES][BN / 2];
        for_each_tile([&](int row, int col, int z) {
            consumer_mainloop<IN, TileA, TileB, BN>(acc, ring, stages, full, range.end - range.begin, first, release);
            const auto c = window(C + z * strideC, ldc, M, N, row, col);
            const bool whole = pairs && c.holds(BM, BN);
            store_accumulators<BN>(map_c, staging, warpgroup, c, first * 64, row, col, z, acc,
                                   epilogue_at(row, col, alpha, beta, bias), whole);
        });
        if (STORE_MODE == STORE_BY_TMA && threadIdx.x % WARPGROUP_THREADS == 0) tma_store_wait_read<0>();
    }
}
