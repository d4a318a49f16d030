// 21 wgmma_stream_k: no SM waits for the last wave.
//
// Idea      Tiles are computed in waves of one per cluster, and the last wave is seldom full: 176 pairs of 256 x 192
//           tiles on 66 clusters are 2.67 waves and take the time of three. So only the complete waves but one are
//           assigned tile by tile; the remaining tiles are divided along K, in equal shares of k-tiles. A share may
//           begin in the middle of a tile: then its partial sums go to a workspace. The cluster that has the beginning
//           of the tile, and reaches it last, adds them.
// Changed   From 19: work units (some k-tiles of a tile) instead of whole tiles.
// Owns      As 19, for each work unit. Work units of 2.67 waves on three clusters:
//
//              cluster 0   [ tile 0     ][ tile 3     ][ tile 4, first 2/3 ]  + the rest of tile 4, from cluster 1
//              cluster 1   [ tile 1     ][ 4, last 1/3 ][ tile 5      ][ 6, first 1/3 ]  + ...
//              cluster 2   [ tile 2     ][ 6, last 2/3 ][ tile 7      ]
//
//           Partial sums are always added in the order of k, so the result does not depend on timing.
// Budget    As 19, and a workspace: 4 KB of flags, which must be 0 before the first launch and are 0 after each, then
//           BM * BN floats for each block of the grid. All blocks must be resident at the same time.
// Needs     sm_90a; rows of A, B (and of C, if STORE_MODE is tma) that start on 16 bytes.
// Try next  Blocks at different positions in K share less in L2: let shares begin where others do.

#include "epilogue/store.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/pdl.cuh"
#include "schedule/flags.cuh"
#include "schedule/grouped_order.cuh"
#include "tile/cluster_ring.cuh"

constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
constexpr int M_TILES = BM / CONSUMERS / 64;  // 64-row tiles per consumer warpgroup
constexpr int THREADS = WARPGROUP_THREADS * (CONSUMERS + 1);
constexpr int FLAGS_BYTES = 4096;
using TileA = OperandTile<BM, !TRANS_A, CLUSTER_N>;
using TileB = OperandTile<BN, TRANS_B, CLUSTER_M>;
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;
constexpr int FOURS = M_TILES * BN / 8;  // accumulators per thread, in vectors of four

// The partial sums of consumer `consumer` of a block: vectors of four, those of adjacent threads adjacent.
__device__ __forceinline__ Vec<float, 4>* partials_of(unsigned char* workspace, unsigned block, int consumer) {
    return reinterpret_cast<Vec<float, 4>*>(workspace + FLAGS_BYTES) +
           (block * CONSUMERS + consumer) * (FOURS * WARPGROUP_THREADS) + threadIdx.x % WARPGROUP_THREADS;
}

__device__ __forceinline__ unsigned* flag_of(unsigned char* workspace, unsigned block, int consumer) {
    return reinterpret_cast<unsigned*>(workspace) + block * CONSUMERS + consumer;
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     float beta, OUT* C, long long ldc, const __grid_constant__ TensorMap map_c, const OUT* __restrict__ bias,
     long long strideA, long long strideB, long long strideC, int batch, unsigned char* workspace) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned stages = shared_address(shared);
    const unsigned staging = stages + STAGES * STAGE_BYTES;
    const unsigned full = staging + CONSUMERS * BOXES * STORE_BOX<BN>, empty = full + 8 * STAGES;
    init_ring<STAGES, CLUSTER, CONSUMERS>(full, empty, map_a, map_b);
    pdl_launch_and_wait();

    const ClusterLoader<CLUSTER_M, CLUSTER_N> loader;
    const unsigned tiles_m = (M - 1) / (BM * CLUSTER_M) + 1, tiles_n = (N - 1) / (BN * CLUSTER_N) + 1;
    const unsigned tiles = tiles_m * tiles_n * batch, clusters = gridDim.x / CLUSTER;
    // Numbered backwards: a cluster waits for clusters of higher numbers, and those were started before it.
    const unsigned cluster = clusters - 1 - blockIdx.x / CLUSTER, block = cluster * CLUSTER + loader.rank;
    const KTileRange range = k_tile_range(K, alpha);
    const unsigned steps = range.end - range.begin;
    // Complete waves are assigned tile by tile: all of them if no tile remains, else all but one.
    const unsigned waves = tiles / clusters, by_tile = (tiles % clusters == 0 ? waves : max(waves, 1u) - 1) * clusters;
    const unsigned long long rest = static_cast<unsigned long long>(tiles - by_tile) * steps;
    const auto share_begin = [&](unsigned of) { return rest * of / clusters; };
    const auto for_each_work_unit = [&](const auto& body) {  // row, column and product of the tile, k-tiles from and to
        unsigned t = cluster, from = 0, left = 0;            // k-tiles of this cluster's share that remain
        bool sharing = false;
        while (true) {
            if (!sharing && t >= by_tile) {
                const unsigned long long begin = share_begin(cluster);
                sharing = true;
                left = share_begin(cluster + 1) - begin;
                t = begin / steps;
                from = begin - static_cast<unsigned long long>(t) * steps;
                t += by_tile;
            }
            if (sharing && left == 0) break;
            const unsigned to = sharing && left < steps - from ? from + left : steps;
            const unsigned z = t / (tiles_m * tiles_n);
            const TileCoord coord = grouped_tile_coord<GROUP>(t - z * tiles_m * tiles_n, tiles_m, tiles_n);
            body((coord.m * CLUSTER_M + loader.row) * BM, (coord.n * CLUSTER_N + loader.col) * BN,
                 static_cast<int>(z), from, to);
            left -= sharing ? to - from : 0;
            t += sharing ? 1 : clusters;
            from = 0;
        }
    };
    Ring<STAGES> ring;
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS;
    if (warpgroup == 0) {  // the producer
        producer_dealloc_registers<CONSUMERS, M_TILES * BN / 2>();
        if (threadIdx.x == 0) {
            for_each_work_unit([&](int row, int col, int z, unsigned from, unsigned to) {
                for (unsigned s = from; s < to; ++s) {
                    const int k = (range.begin + s) * BK;
                    loader.load<TileA, TileB>(stages + ring.stage * STAGE_BYTES, full + 8 * ring.stage,
                                              empty + 8 * ring.stage, ring.parity ^ 1, map_a, map_b, row, col, k,
                                              strideA ? z : 0, strideB ? z : 0);
                    ring.advance();
                }
            });
        }
    } else {  // a consumer
        consumer_alloc_registers<CONSUMERS, M_TILES * BN / 2>();
        const int first = (warpgroup - 1) * M_TILES;  // this consumer's first 64-row tile
        const int thread = threadIdx.x % WARPGROUP_THREADS;
        const auto release = [&](int stage) { release_stage<CLUSTER>(empty + 8 * stage, thread); };
        const bool pairs = vectors_fit<2>(C, ldc) && strideC % 2 == 0;
        float acc[M_TILES][BN / 2];
        for_each_work_unit([&](int row, int col, int z, unsigned from, unsigned to) {
            consumer_mainloop<IN, TileA, TileB, BN>(acc, ring, stages, full, to - from, first, release);
            if (from > 0) {  // another cluster stores this tile
                Vec<float, 4>* const target = partials_of(workspace, block, warpgroup - 1);
#pragma unroll
                for (int i = 0; i < FOURS; ++i) {
                    const float* const four = &acc[i / (BN / 8)][i % (BN / 8) * 4];
                    target[i * WARPGROUP_THREADS] = *reinterpret_cast<const Vec<float, 4>*>(four);
                }
                __threadfence();
                named_barrier_sync(warpgroup, WARPGROUP_THREADS);
                if (thread == 0) set_flag(flag_of(workspace, block, warpgroup - 1));
                return;
            }
            // The rest of the tile is at the beginning of the shares of the next clusters.
            for (unsigned other = cluster + 1, have = to; have < steps; ++other) {
                const unsigned share = share_begin(other + 1) - share_begin(other);
                if (share == 0) continue;
                const unsigned sender = other * CLUSTER + loader.rank;
                if (thread == 0) wait_and_reset_flag(flag_of(workspace, sender, warpgroup - 1));
                named_barrier_sync(warpgroup, WARPGROUP_THREADS);
                const Vec<float, 4>* const source = partials_of(workspace, sender, warpgroup - 1);
#pragma unroll
                for (int i = 0; i < FOURS; ++i) {
                    const float4 partial = __ldcg(reinterpret_cast<const float4*>(&source[i * WARPGROUP_THREADS]));
                    float* const four = &acc[i / (BN / 8)][i % (BN / 8) * 4];
                    four[0] = __fadd_rn(four[0], partial.x);
                    four[1] = __fadd_rn(four[1], partial.y);
                    four[2] = __fadd_rn(four[2], partial.z);
                    four[3] = __fadd_rn(four[3], partial.w);
                }
                have = share < steps - have ? have + share : steps;
            }
            const auto c = window(C + z * strideC, ldc, M, N, row, col);
            const bool whole = pairs && c.holds(BM, BN);
            store_accumulators<BN>(map_c, staging, warpgroup, c, first * 64, row, col, z, acc,
                                   epilogue_at(row, col, alpha, beta, bias), whole);
        });
        if (STORE_MODE == STORE_BY_TMA && thread == 0) tma_store_wait_read<0>();
    }
    if (CLUSTER > 1) cluster_sync();  // a block must not exit while others still write to its shared memory
}
