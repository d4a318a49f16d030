// 18 wgmma_persistent: a block for every SM, not for every tile.
//
// Idea      As many blocks as SMs are started, and each goes through its share of the tiles. The producer never stops
//           at the end of a tile: while consumers finish one, the first slices of the next are on their way. And
//           outputs leave through shared memory and the copy engine (stmatrix, TMA store), which writes them while
//           the next tile is multiplied.
// Changed   From 17: a loop over tiles, in an order that keeps blocks that run at the same time close together in A and
//           B; where STORE_MODE is not 0 the new way back (store.cuh).
// Owns      A block owns tiles number blockIdx.x, + gridDim.x, + 2 gridDim.x ...; a consumer group BM / CONSUMERS rows.
//
//              producer      | slices of tile 0 | slices of tile 132 | ...
//              consumers           | multiply 0 | finish | multiply 132 | finish |
//              copy engine                           | store 0 |            | store 132 |
//
// Budget    STAGES * (BM + BN) * 128 bytes for slices, BOXES of 64 rows for each consumer's outputs.
// Needs     sm_90a; rows of A, B (and of C, if STORE_MODE is tma) that start on 16 bytes.
// Try next  Neighbouring blocks fetch the same slices from the second-level cache: 19 fetches them once.

#include "schedule/grouped_order.cuh"
#include "epilogue/store.cuh"

constexpr int TILES = BM / CONSUMERS / 64;  // of 64 rows a consumer group has
constexpr int THREADS = GROUP_THREADS * (CONSUMERS + 1);
using TileA = OperandTile<BM, !TRANS_A>;
using TileB = OperandTile<BN, TRANS_B>;
constexpr int SLICE = TileA::BYTES + TileB::BYTES;

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     float beta, OUT* C, long long ldc, const __grid_constant__ TensorMap map_c, const OUT* __restrict__ bias,
     long long strideA, long long strideB, long long strideC, int batch) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned slices = shared_address(shared);
    const unsigned staging = slices + STAGES * SLICE;
    const unsigned full = staging + CONSUMERS * BOXES * STORE_BOX<BN>, empty = full + 8 * STAGES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            barrier_init(full + 8 * i, 1);
            barrier_init(empty + 8 * i, CONSUMERS);
        }
        barrier_init_done();
        prefetch_map(map_a);
        prefetch_map(map_b);
    }
    __syncthreads();
    start_next_and_wait_for_previous();

    const unsigned down = (M - 1) / BM + 1, across = (N - 1) / BN + 1, tiles = down * across * batch;
    const SliceRange range = slice_range(K, alpha);
    const auto for_each_tile = [&](const auto& body) {
        for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) {
            const unsigned z = t / (down * across);
            const Place place = grouped_place<GROUP>(t - z * down * across, down, across);
            body(static_cast<int>(place.down * BM), static_cast<int>(place.across * BN), static_cast<int>(z));
        }
    };
    Ring<STAGES> ring;
    const int group = threadIdx.x / GROUP_THREADS;
    if (group == 0) {  // the producer
        give_back_registers<CONSUMERS, TILES * BN / 2>();
        if (threadIdx.x == 0)
            for_each_tile([&](int row, int col, int z) {
                for (int k = range.begin; k < range.end; ++k) {
                    const unsigned slice = slices + ring.stage * SLICE, barrier = full + 8 * ring.stage;
                    barrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
                    barrier_expect(barrier, SLICE);
                    TileA::load(slice, map_a, barrier, row, k * BK, strideA ? z : 0);
                    TileB::load(slice + TileA::BYTES, map_b, barrier, col, k * BK, strideB ? z : 0);
                    ring.advance();
                }
            });
    } else {
        take_registers<CONSUMERS, TILES * BN / 2>();
        const int first = (group - 1) * TILES;  // of the consumer's tiles of 64 rows
        const auto release = [&](int stage) {
            if (threadIdx.x % GROUP_THREADS == 0) barrier_arrive(empty + 8 * stage);
        };
        const bool pairs = vectors_fit<2>(C, ldc) && strideC % 2 == 0;
        float sums[TILES][BN / 2];
        for_each_tile([&](int row, int col, int z) {
            multiply_slices<IN, TileA, TileB, BN>(sums, ring, slices, full, range.end - range.begin, first, release);
            const auto c = window(C + z * strideC, ldc, M, N, row, col);
            const bool whole = pairs && c.holds(BM, BN);
            store_sums_staged<BN>(map_c, staging, group, c, first * 64, row, col, z, sums,
                                  finish_at(row, col, alpha, beta, bias), whole);
        });
        if (STORE_MODE == STORE_BY_TMA && threadIdx.x % GROUP_THREADS == 0) tma_store_wait_read<0>();
    }
}
