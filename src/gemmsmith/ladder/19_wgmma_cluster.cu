// 19 wgmma_cluster: neighbours share what they load.
//
// Idea      CLUSTER_M x CLUSTER_N blocks on neighbouring SMs form a cluster. Blocks above each other need the same
//           columns of B, blocks beside each other the same rows of A; so each loads only a part of such a slice and
//           the copy engine writes it into the shared memory of all who need it (multicast). Less is read from the
//           second-level cache, and under a power limit what is not moved becomes clock. Larger tiles move less, too;
//           where they do not fill the last wave, TAIL_BN ones at the right end of C do (tail_tiles.cuh).
// Changed   From 18: a stage is empty when the consumers of the whole cluster have left it, because any
//           of its blocks may write there.
// Owns      A cluster owns CLUSTER_M x CLUSTER_N tiles of BM x BN, a block one of them, a consumer group BM / CONSUMERS
//           rows of it. Parts of a slice, for a cluster of 2 x 1:
//
//              block 0 loads    A rows of block 0,  B first half   -> to both
//              block 1 loads    A rows of block 1,  B second half  -> to both
//
// Budget    STAGES * (BM + BN) * 128 bytes for slices, BOXES of 64 rows for each consumer's outputs.
// Needs     sm_90a; rows of A, B (and of C, if STORE_MODE is tma) that start on 16 bytes.
// Try next  Few tiles and a deep K: 20 divides K.

#include "tile/cluster_ring.cuh"
#include "schedule/grouped_order.cuh"
#include "schedule/tail_tiles.cuh"
#include "epilogue/store.cuh"

constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
constexpr int TILES = BM / CONSUMERS / 64;  // of 64 rows a consumer group has
constexpr int THREADS = GROUP_THREADS * (CONSUMERS + 1);
using TileA = OperandTile<BM, !TRANS_A, CLUSTER_N>;
template <int COLS>
using TileB = OperandTile<COLS, TRANS_B, CLUSTER_M, TRANS_B && !TAIL_BN ? COLS : BK>;
constexpr int SLICE = TileA::BYTES + TileB<BN>::BYTES;

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     float beta, OUT* C, long long ldc, const __grid_constant__ TensorMap map_c, const OUT* __restrict__ bias,
     long long strideA, long long strideB, long long strideC, int batch) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned slices = shared_address(shared);
    const unsigned staging = slices + STAGES * SLICE;
    const unsigned full = staging + CONSUMERS * BOXES * STORE_BOX<BN>, empty = full + 8 * STAGES;
    const unsigned down = (M - 1) / (BM * CLUSTER_M) + 1, clusters = gridDim.x / CLUSTER;
    const WideColumns<BN, TAIL_BN, CLUSTER_N> wide(empty + 8 * STAGES, N, down * batch, clusters);
    start_ring<STAGES, CLUSTER, CONSUMERS>(full, empty, map_a, map_b);
    start_next_and_wait_for_previous();

    const ClusterLoader<CLUSTER_M, CLUSTER_N> loader;
    const SliceRange range = slice_range(K, alpha);
    const auto for_each_tile = [&](const auto& body) {
        unsigned t = blockIdx.x / CLUSTER;
        // Tiles from number `begin` on, `across` in a row from column `left` on; `body` is told their width.
        const auto take = [&](auto width, unsigned begin, unsigned across, int left) {
            const unsigned z = (t - begin) / (down * across);
            const Place place = grouped_place<GROUP>(t - begin - z * down * across, down, across);
            body(width, (place.down * CLUSTER_M + loader.row) * BM,
                 left + (place.across * CLUSTER_N + loader.col) * decltype(width)::value, static_cast<int>(z));
        };
        for (; t < down * wide() * batch; t += clusters) take(Width<BN>{}, 0, wide(), 0);
        if constexpr (TAIL_BN > 0) {
            const auto narrow = [&] { return columns_after<TAIL_BN, CLUSTER_N>(wide() * BN * CLUSTER_N, N); };
            for (; t < down * (wide() + narrow()) * batch; t += clusters)
                take(Width<TAIL_BN>{}, down * wide() * batch, narrow(), wide() * BN * CLUSTER_N);
        }
    };
    Ring<STAGES> ring;
    const int group = threadIdx.x / GROUP_THREADS;
    if (group == 0) {  // the producer
        give_back_registers<CONSUMERS, TILES * BN / 2>();
        if (threadIdx.x == 0) {
            for_each_tile([&](auto width, int row, int col, int z) {
                for (int k = range.begin; k < range.end; ++k) {
                    loader.load<TileA, TileB<decltype(width)::value>>(
                        slices + ring.stage * SLICE, full + 8 * ring.stage, empty + 8 * ring.stage, ring.parity ^ 1,
                        map_a, map_b, row, col, k * BK, strideA ? z : 0, strideB ? z : 0);
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
        const auto finish_tile = [&](auto& sums, int row, int col, int z) {
            constexpr int COLS = sizeof(sums[0]) / sizeof(float) * 2;
            multiply_slices<IN, TileA, TileB<COLS>, COLS, 1, SLICE>(sums, ring, slices, full, range.end - range.begin,
                                                                    first, release);
            const auto c = window(C + z * strideC, ldc, M, N, row, col);
            const bool whole = pairs && c.holds(BM, COLS);
            store_sums_staged<COLS>(map_c, staging, group, c, first * 64, row, col, z, sums,
                                    finish_at(row, col, alpha, beta, bias), whole);
        };
        float sums[TILES][BN / 2];
        for_each_tile([&](auto width, int row, int col, int z) {
            if constexpr (decltype(width)::value == BN) {
                finish_tile(sums, row, col, z);
            } else {
                float fewer[TILES][decltype(width)::value / 2];
                finish_tile(fewer, row, col, z);
            }
        });
        if (STORE_MODE == STORE_BY_TMA && threadIdx.x % GROUP_THREADS == 0) tma_store_wait_read<0>();
    }
    if (CLUSTER > 1) cluster_sync();  // a block must not end while others still write to it
}
