// 21 wgmma_stream_k: no SM waits for the last wave.
//
// Idea      Tiles come in waves, one for each cluster, and the last wave is seldom full: 176 pairs of 256 x 192 tiles
//           on 66 clusters are 2.67 waves and take the time of three. So only whole waves but one are handed out by the
//           tile; what remains is handed out by the slice, in equal shares. A share may begin in the middle of a tile:
//           then its sums go to a workspace, and the cluster that has the tile's beginning, which comes to it last,
//           adds them.
// Changed   From 19: pieces of tiles instead of tiles.
// Owns      As 19, for each piece. Pieces of 2.67 waves on three clusters, S slices a tile:
//
//              cluster 0   [ tile 0     ][ tile 3     ][ tile 4, first 2/3 ]  + the rest of tile 4, from cluster 1
//              cluster 1   [ tile 1     ][ 4, last 1/3 ][ tile 5      ][ 6, first 1/3 ]  + ...
//              cluster 2   [ tile 2     ][ 6, last 2/3 ][ tile 7      ]
//
//           Sums are added in the order of k, always the same: the result does not depend on who was faster.
// Budget    As 19, and a workspace: 4 KB of flags, which must be 0 before the first launch and are left 0, then
//           BM * BN floats for each block of the grid. All blocks must run at the same time.
// Needs     sm_90a; rows of A, B (and of C, if STORE_MODE is tma) that start on 16 bytes.
// Try next  Blocks at different places of K share less in the second-level cache: shares that begin where others do.

#include "tile/cluster_ring.cuh"
#include "schedule/flags.cuh"
#include "schedule/grouped_order.cuh"
#include "epilogue/store.cuh"

constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
constexpr int TILES = BM / CONSUMERS / 64;  // of 64 rows a consumer group has
constexpr int THREADS = GROUP_THREADS * (CONSUMERS + 1);
constexpr int FLAGS_BYTES = 4096;
using TileA = OperandTile<BM, !TRANS_A, CLUSTER_N>;
using TileB = OperandTile<BN, TRANS_B, CLUSTER_M>;
constexpr int SLICE = TileA::BYTES + TileB::BYTES;
constexpr int FOURS = TILES * BN / 8;  // sums of a thread, four at a time

// A group's part of the workspace: its threads' sums, four by four, threads side by side.
__device__ __forceinline__ Vec<float, 4>* sums_of(unsigned char* workspace, unsigned block, int group) {
    return reinterpret_cast<Vec<float, 4>*>(workspace + FLAGS_BYTES) +
           (block * CONSUMERS + group) * (FOURS * GROUP_THREADS) + threadIdx.x % GROUP_THREADS;
}

__device__ __forceinline__ unsigned* flag_of(unsigned char* workspace, unsigned block, int group) {
    return reinterpret_cast<unsigned*>(workspace) + block * CONSUMERS + group;
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     float beta, OUT* C, long long ldc, const __grid_constant__ TensorMap map_c, const OUT* __restrict__ bias,
     long long strideA, long long strideB, long long strideC, int batch, unsigned char* workspace) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned slices = shared_address(shared);
    const unsigned staging = slices + STAGES * SLICE;
    const unsigned full = staging + CONSUMERS * BOXES * STORE_BOX<BN>, empty = full + 8 * STAGES;
    start_ring<STAGES, CLUSTER, CONSUMERS>(full, empty, map_a, map_b);
    start_next_and_wait_for_previous();

    const ClusterLoader<CLUSTER_M, CLUSTER_N> loader;
    const unsigned down = (M - 1) / (BM * CLUSTER_M) + 1, across = (N - 1) / (BN * CLUSTER_N) + 1;
    const unsigned tiles = down * across * batch, clusters = gridDim.x / CLUSTER;
    // Numbered backwards, as a cluster waits for those after it: they are the ones that started before it.
    const unsigned cluster = clusters - 1 - blockIdx.x / CLUSTER, mine = cluster * CLUSTER + loader.rank;
    const SliceRange range = slice_range(K, alpha);
    const unsigned steps = range.end - range.begin;
    // Whole waves are handed out by the tile; all of them if they are whole, else all but one.
    const unsigned waves = tiles / clusters, by_tile = (tiles % clusters == 0 ? waves : max(waves, 1u) - 1) * clusters;
    const unsigned long long rest = static_cast<unsigned long long>(tiles - by_tile) * steps;
    const auto share_begin = [&](unsigned of) { return rest * of / clusters; };
    const auto for_each_piece = [&](const auto& body) {  // row, column and product of the tile, slices from and to
        unsigned t = cluster, from = 0, left = 0;        // slices of this cluster's share that are left
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
            const unsigned z = t / (down * across);
            const Place place = grouped_place<GROUP>(t - z * down * across, down, across);
            body((place.down * CLUSTER_M + loader.row) * BM, (place.across * CLUSTER_N + loader.col) * BN,
                 static_cast<int>(z), from, to);
            left -= sharing ? to - from : 0;
            t += sharing ? 1 : clusters;
            from = 0;
        }
    };
    Ring<STAGES> ring;
    const int group = threadIdx.x / GROUP_THREADS;
    if (group == 0) {  // the producer
        give_back_registers<CONSUMERS, TILES * BN / 2>();
        if (threadIdx.x == 0) {
            for_each_piece([&](int row, int col, int z, unsigned from, unsigned to) {
                for (unsigned s = from; s < to; ++s) {
                    const int k = (range.begin + s) * BK;
                    loader.load<TileA, TileB>(slices + ring.stage * SLICE, full + 8 * ring.stage,
                                              empty + 8 * ring.stage, ring.parity ^ 1, map_a, map_b, row, col, k,
                                              strideA ? z : 0, strideB ? z : 0);
                    ring.advance();
                }
            });
        }
    } else {
        take_registers<CONSUMERS, TILES * BN / 2>();
        const int first = (group - 1) * TILES;  // of the consumer's tiles of 64 rows
        const int thread = threadIdx.x % GROUP_THREADS;
        const auto release = [&](int stage) { leave_stage<CLUSTER>(empty + 8 * stage, thread); };
        const bool pairs = vectors_fit<2>(C, ldc) && strideC % 2 == 0;
        float sums[TILES][BN / 2];
        for_each_piece([&](int row, int col, int z, unsigned from, unsigned to) {
            multiply_slices<IN, TileA, TileB, BN>(sums, ring, slices, full, to - from, first, release);
            if (from > 0) {  // someone else finishes this tile
                Vec<float, 4>* const target = sums_of(workspace, mine, group - 1);
#pragma unroll
                for (int i = 0; i < FOURS; ++i) {
                    const float* const four = &sums[i / (BN / 8)][i % (BN / 8) * 4];
                    target[i * GROUP_THREADS] = *reinterpret_cast<const Vec<float, 4>*>(four);
                }
                __threadfence();
                group_sync(group, GROUP_THREADS);
                if (thread == 0) raise(flag_of(workspace, mine, group - 1));
                return;
            }
            // The clusters after this one have what is missing, at the beginning of their shares.
            for (unsigned other = cluster + 1, have = to; have < steps; ++other) {
                const unsigned share = share_begin(other + 1) - share_begin(other);
                if (share == 0) continue;
                const unsigned block = other * CLUSTER + loader.rank;
                if (thread == 0) wait_and_lower(flag_of(workspace, block, group - 1));
                group_sync(group, GROUP_THREADS);
                const Vec<float, 4>* const source = sums_of(workspace, block, group - 1);
#pragma unroll
                for (int i = 0; i < FOURS; ++i) {
                    const float4 part = __ldcg(reinterpret_cast<const float4*>(&source[i * GROUP_THREADS]));
                    float* const four = &sums[i / (BN / 8)][i % (BN / 8) * 4];
                    four[0] = __fadd_rn(four[0], part.x);
                    four[1] = __fadd_rn(four[1], part.y);
                    four[2] = __fadd_rn(four[2], part.z);
                    four[3] = __fadd_rn(four[3], part.w);
                }
                have = share < steps - have ? have + share : steps;
            }
            const auto c = window(C + z * strideC, ldc, M, N, row, col);
            const bool whole = pairs && c.holds(BM, BN);
            store_sums_staged<BN>(map_c, staging, group, c, first * 64, row, col, z, sums,
                                  finish_at(row, col, alpha, beta, bias), whole);
        });
        if (STORE_MODE == STORE_BY_TMA && thread == 0) tma_store_wait_read<0>();
    }
    if (CLUSTER > 1) cluster_sync();  // a block must not end while others still write to it
}
