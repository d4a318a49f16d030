// 19 wgmma_cluster: blocks share what they load.
//
// Idea      CLUSTER_M x CLUSTER_N blocks on neighbouring SMs form a cluster. Blocks above each other need the same
//           columns of B, blocks beside each other the same rows of A. So each block loads only a share of such a
//           k-tile, and TMA writes it into the shared memory of all blocks that need it (multicast). Less is read from
//           L2, and under a power limit the energy that is saved raises the clock. Larger tiles also move less; where
//           they do not fill the last wave, tail tiles of TAIL_BN columns at the right edge of C do (tail_tiles.cuh).
//           SWAP transposes the product: wgmma's 64 rows are columns of C, so a tile has a multiple of 64 columns and
//           any multiple of 8 rows. That wastes less of 300 rows, and outputs leave in rows of 128 bytes at any height.
//           Where tiles alone do not fill the GPU, blocks share a tile, each with a part of K: CLUSTER_K blocks of one
//           cluster (cluster_sums.cuh), or SLICES blocks of different clusters (slices.cuh).
// Changed   From 18: a stage is empty when the consumers of all blocks in the same row and column of the cluster have
//           released it, because this block writes to theirs as well.
// Owns      A cluster owns CLUSTER_M x CLUSTER_N tiles of BM x BN (SWAP: of the transpose of C), a block one of them, a
//           consumer warpgroup BM / CONSUMERS rows of it. Shares of a k-tile, for a cluster of 2 x 1:
//
//              block 0 loads    its own rows of A, and the first half of B   -> multicast to both blocks
//              block 1 loads    its own rows of A, and the second half of B  -> multicast to both blocks
//
// Budget    STAGES * DEPTH * (BM + BN) * 128 bytes for k-tiles, and BOXES boxes of 64 rows for each consumer's outputs.
//           DEPTH k-tiles share the barriers of a stage: fewer barriers, but fewer stages too. SEND needs room for the
//           partial sums of other blocks: (CLUSTER_K - 1) / CLUSTER_K of a tile of 32-bit sums.
// Needs     sm_90a; rows of A, B (and of C, if STORE_MODE is tma) that start on 16 bytes.
// Try next  Few tiles and a deep K: divide K (20 wgmma_split_k).

#include "epilogue/either_store.cuh"
#include "ptx/elect.cuh"
#include "ptx/pdl_wait_behind.cuh"
#include "schedule/cluster_sums.cuh"
#include "schedule/grouped_order.cuh"
#include "schedule/slices.cuh"
#include "schedule/tail_tiles.cuh"
#include "tile/cluster_ring.cuh"
#include "tile/two_parts.cuh"

constexpr int SHARERS = CLUSTER_M * CLUSTER_N;  // blocks that load for each other
constexpr int CLUSTER = SHARERS * CLUSTER_K;
constexpr int M_TILES = BM / CONSUMERS / 64;  // 64-row tiles per consumer warpgroup
constexpr int THREADS = WARPGROUP_THREADS * (CONSUMERS + 1);
using TileA = OperandTile<BM, SWAP ? TRANS_B : !TRANS_A, CLUSTER_N>;  // the operand of wgmma's 64 rows
constexpr bool B_K_MAJOR = SWAP ? !TRANS_A : TRANS_B;
template <int COLS>
using TileB =
    OperandTile<COLS, B_K_MAJOR, CLUSTER_M, B_K_MAJOR && !TAIL_BN ? COLS : BK, true>;
// Whether the products of a stage are few, so that what is between them and between loads counts. On an H200 up to 14 %
// less time, 2 % in the mean over 17 configurations; 8 % more with two 64-row tiles for each consumer.
constexpr bool SHORT_STAGES = M_TILES == 1 && BN < 256;
// Whether the wait for the launch before comes as late as it can, and no barrier of the cluster at the end, which would
// wait for outputs to be written. On an H200 6 % less time in the mean over 31 products of up to 60 us, 1 to 2 % at
// 4096^3. Tiles of 64 x 256 for each consumer, for long products, are as the time model has measured them.
constexpr bool WAITS_LATE = M_TILES > 1 || BN < 256;
// Outputs of 64 rows are stored while 64 others are multiplied: on an H200 1.1 % less time, 0.7 % under the power cap.
constexpr bool TWO_PARTS = M_TILES == 2 && BN >= 128 && TAIL_BN == 0 && CLUSTER_K == 1 && SLICES == 1 && DEPTH == 1;
constexpr int STAGE_BYTES = DEPTH * (TileA::BYTES + TileB<BN>::BYTES);

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     float beta, OUT* C, long long ldc, const __grid_constant__ TensorMap map_c, const OUT* __restrict__ bias,
     long long strideA, long long strideB, long long strideC, int batch, unsigned char* workspace,
     const __grid_constant__ TensorMap map_rest) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned stages = shared_address(shared);
    const unsigned staging = stages + STAGES * STAGE_BYTES;
    constexpr int STAGED = BOXES * (SWAP ? TRANSPOSED_BOX : STORE_BOX<BN>);  // bytes of a consumer's outputs
    using Sums = SentSums<CLUSTER_K, CONSUMERS, M_TILES * BN / 8>;
    const unsigned full = staging + CONSUMERS * STAGED + (SEND ? Sums::BYTES : 0), empty = full + 8 * STAGES;
    const int rows = SWAP ? N : M, cols = SWAP ? M : N;
    const unsigned tiles_m = (rows - 1) / (BM * CLUSTER_M) + 1, clusters = gridDim.x / CLUSTER;
    const WideColumns<BN, TAIL_BN, CLUSTER_N> wide(empty + 8 * STAGES, cols, tiles_m * batch, clusters);
    using Loader = ClusterLoader<CLUSTER_M, CLUSTER_N, CLUSTER_K>;
    if (SEND && threadIdx.x == 0)
        for (int i = 0; i < CONSUMERS; ++i) mbarrier_init(empty + 8 * (STAGES + i), 1);
    init_ring<STAGES, Loader::PEERS, CONSUMERS, CLUSTER, SHORT_STAGES && TAIL_BN == 0>(full, empty, map_a, map_b);
    pdl_launch_dependents();
    if (!WAITS_LATE) pdl_wait();

    const Loader loader;
    const KTileRange whole_k = k_tile_range(K, alpha, DEPTH);
    const Slices<SLICES, SLICE_ORDER> slices(tiles_m * wide() * batch, clusters);
    // Calls body with every tile of this block, or slice of one: its width, row and column, the product, its number.
    const auto for_each_tile = [&](const auto& body) {
        unsigned t = blockIdx.x / CLUSTER;
        // Tile number `tile` of those with `tiles_n` to a row, the first at column `left`.
        const auto take = [&](auto width, unsigned tile, unsigned tiles_n, int left) {
            const unsigned z = tile / (tiles_m * tiles_n);
            const TileCoord coord = grouped_tile_coord<GROUP>(tile - z * tiles_m * tiles_n, tiles_m, tiles_n);
            body(width, (coord.m * CLUSTER_M + loader.row) * BM,
                 left + (coord.n * CLUSTER_N + loader.col) * decltype(width)::value, static_cast<int>(z), t);
        };
        for (; t < tiles_m * wide() * batch * slices.count; t += clusters)
            take(Width<BN>{}, slices.tile(t), wide(), 0);
        if constexpr (TAIL_BN > 0) {
            const auto tail = [&] { return columns_after<TAIL_BN, CLUSTER_N>(wide() * BN * CLUSTER_N, cols); };
            for (; t < tiles_m * (wide() + tail()) * batch; t += clusters)
                take(Width<TAIL_BN>{}, t - tiles_m * wide() * batch, tail(), wide() * BN * CLUSTER_N);
        }
    };
    const auto k_tiles_of = [&](unsigned t) {
        if constexpr (CLUSTER_K > 1) return k_tile_range(K, alpha, DEPTH, loader.part, CLUSTER_K);
        return SLICES == 1 ? whole_k : k_tile_range(K, alpha, DEPTH, slices.slice(t), slices.count);
    };
    Ring<STAGES> ring;
    const int warpgroup = same_in_warp<SHORT_STAGES>(threadIdx.x / WARPGROUP_THREADS);
    const auto loads = [] {  // one thread
        if constexpr (SHORT_STAGES) return same_in_warp<true>(threadIdx.x / 32) == 0 && elected();
        return threadIdx.x == 0;
    };
    if (warpgroup == 0) {  // the producer
        producer_dealloc_registers<CONSUMERS, M_TILES * BN / 2>();
        const auto load_tile = [&](auto width, int row, int col, int z, unsigned t) {
            const KTileRange range = k_tiles_of(t);
            if (WAITS_LATE) pdl_wait_behind(row, col);
            for (int k = range.begin; k < range.end; ++k) {
                loader.load<TileA, TileB<decltype(width)::value>, DEPTH, SHORT_STAGES>(
                    stages + ring.stage * STAGE_BYTES, full + 8 * ring.stage, empty + 8 * ring.stage, ring.parity ^ 1,
                    SWAP ? map_b : map_a, SWAP ? map_a : map_b, row, col, k * DEPTH * BK,
                    (SWAP ? strideB : strideA) ? z : 0, (SWAP ? strideA : strideB) ? z : 0, &map_rest);
                ring.advance();
            }
        };
        if constexpr (CLUSTER_K > 1) {
            for_each_tile([&](auto width, int row, int col, int z, unsigned t) {
                if (loads()) load_tile(width, row, col, z, t);
                __syncwarp();
                if (!SEND) cluster_sync();  // partial sums are in the stages
                cluster_sync();             // all of them have been read
            });
        } else if (loads()) {
            for_each_tile(load_tile);
            // Others write to shared memory of this block until all stages have been released for the last time.
            for (int i = 0; WAITS_LATE && SHARERS > 1 && i < STAGES; ++i, ring.advance())
                mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
        }
    } else {  // a consumer
        consumer_alloc_registers<CONSUMERS, M_TILES * BN / 2>();
        const int first = (warpgroup - 1) * M_TILES;  // this consumer's first 64-row tile
        const int thread = threadIdx.x % WARPGROUP_THREADS;
        const auto release = [&](int stage) { loader.release(empty + 8 * stage, thread); };
        unsigned sent = 0;  // the parity of this tile's sums
        const bool pairs = vectors_fit<2>(C, ldc) && strideC % 2 == 0;
        // Calls body with the tile's window of C, the epilogue of sums times `scale`, and whether all of it is inside.
        const auto with_outputs = [&](auto width, int row, int col, int z, float scale, const auto& body) {
            constexpr int COLS = decltype(width)::value;
            if (WAITS_LATE) pdl_wait();  // the launch before may still use what is stored now
            const int top = SWAP ? col : row, left = SWAP ? row : col;
            const auto c = window(C + z * strideC, ldc, M, N, top, left);
            body(c, epilogue_at(top, left, scale, beta, bias), pairs && c.holds(SWAP ? COLS : BM, SWAP ? BM : COLS));
        };
        const auto store_sums = [&](auto& sums, int m_tile, int row, int col, int z, float scale) {
            constexpr int COLS = sizeof(sums[0]) / sizeof(float) * 2;
            with_outputs(Width<COLS>{}, row, col, z, scale, [&](const auto& c, const auto& epilogue, bool whole) {
                store_either<COLS>(map_c, staging, warpgroup, c, m_tile, row, col, z, sums, epilogue, whole);
            });
        };
        const auto compute_tile = [&](auto& acc, int row, int col, int z, unsigned t) {
            constexpr int COLS = sizeof(acc[0]) / sizeof(float) * 2;
            const KTileRange range = k_tiles_of(t);
            consumer_mainloop<IN, TileA, TileB<COLS>, COLS, DEPTH, STAGE_BYTES>(
                acc, ring, stages, full, range.end - range.begin, first, release);
            if constexpr (CLUSTER_K == 1 && SLICES == 1) return store_sums(acc, first, row, col, z, alpha);
            with_outputs(Width<COLS>{}, row, col, z, alpha, [&](const auto& c, const auto& epilogue, bool whole) {
                const auto store = [&](int i, const Vec<float, 4>& sum) {
                    store_either_four<COLS>(c, first, i, sum.at, epilogue, whole);
                };
                if constexpr (SEND) {
                    const Sums sums{staging, empty + 8 * STAGES, warpgroup - 1, loader.part, loader.rank, SHARERS};
                    if (thread == 0) sums.expect();
                    sums.template add<COLS>(acc, sent, [] { cluster_arrive(); }, store);  // nobody waits for stores
                    sent ^= 1;
                    cluster_wait();
                } else if constexpr (CLUSTER_K > 1) {
                    add_in_cluster<CLUSTER_K, CONSUMERS, COLS>(stages, warpgroup - 1, loader.part, loader.rank,
                                                               SHARERS, acc, store);
                } else if constexpr (SLICES > 1) {
                    const SliceWorkspace of_slices(workspace, tiles_m * wide() * batch * (CLUSTER * CONSUMERS));
                    const unsigned number = (slices.tile(t) * CLUSTER + loader.rank) * CONSUMERS + warpgroup - 1;
                    add_slices<SLICES, COLS, CONSUMERS == 1 ? 32 : 16>(
                        of_slices, number, slices.slice(t), slices.count, warpgroup,
                        empty + 8 * STAGES + 4 * (warpgroup - 1), acc, store);
                }
            });
        };
        if constexpr (TWO_PARTS) {
            compute_in_two_parts<IN, TileA, TileB<BN>, BN>(ring, stages, full, whole_k.end - whole_k.begin, first,
                                                           alpha, for_each_tile, release, store_sums);
        } else {
            float acc[M_TILES][BN / 2];
            for_each_tile([&](auto width, int row, int col, int z, unsigned t) {
                if constexpr (decltype(width)::value == BN) {
                    compute_tile(acc, row, col, z, t);
                } else {
                    float tail_acc[M_TILES][decltype(width)::value / 2];
                    compute_tile(tail_acc, row, col, z, t);
                }
            });
        }
        if (STORE_MODE == STORE_BY_TMA && threadIdx.x % WARPGROUP_THREADS == 0) tma_store_wait_read<0>();
    }
    if (!WAITS_LATE && SHARERS > 1 && CLUSTER_K == 1) cluster_sync();  // others may still write to this block
}
