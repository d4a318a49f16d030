// 17 wgmma_specialized: one group asks, the others multiply.
//
// Idea      A producer group does nothing but ask for slices, as far ahead as there are stages; consumer groups do
//           nothing but multiply. They meet at two barriers a stage, "full" and "empty", and nowhere else: no group
//           waits for another to finish a slice, and the products of one slice run while the next is waited for. The
//           producer gives most of its registers to the consumers (setmaxnreg).
// Changed   From 16: no __syncthreads in the loop; a consumer group may own more than 64 rows.
// Owns      A block owns BM x BN outputs, a consumer group BM / CONSUMERS rows of them. In time:
//
//              producer      ask 0  ask 1  ask 2  ask 3   . wait empty 0 .  ask 4   . wait empty 1 .  ask 5
//              consumers     . wait full 0 .  [ multiply 0 ][ multiply 1 ][ multiply 2 ]
//                                                     free 0 ^     free 1 ^
//
// Budget    STAGES * (BM + BN) * 128 bytes of shared memory; BM / CONSUMERS * BN / 128 sums a consumer thread.
// Needs     sm_90a; rows of A and B that start on 16 bytes.
// Try next  While a block stores its outputs nothing multiplies, and each block starts with empty stages: 18.

#include "schedule/grouped_order.cuh"
#include "tile/warpgroup.cuh"

constexpr int TILES = BM / CONSUMERS / 64;  // of 64 rows a consumer group has
constexpr int THREADS = GROUP_THREADS * (CONSUMERS + 1);
using TileA = OperandTile<BM, !TRANS_A>;
using TileB = OperandTile<BN, TRANS_B>;
constexpr int SLICE = TileA::BYTES + TileB::BYTES;

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     float beta, OUT* C, long long ldc, const OUT* __restrict__ bias, long long strideA, long long strideB,
     long long strideC) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned slices = shared_address(shared), full = slices + STAGES * SLICE, empty = full + 8 * STAGES;
    const SliceRange range = slice_range(K, alpha);
    const int z = blockIdx.z;
    const Tile tile = grouped_tile<BM, BN, 8>(M, N);
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

    Ring<STAGES> ring;
    const int group = threadIdx.x / GROUP_THREADS;
    if (group == 0) {  // the producer
        give_back_registers<CONSUMERS, TILES * BN / 2>();
        if (threadIdx.x == 0)
            for (int k = range.begin; k < range.end; ++k) {
                const unsigned slice = slices + ring.stage * SLICE, barrier = full + 8 * ring.stage;
                barrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
                barrier_expect(barrier, SLICE);
                TileA::load(slice, map_a, barrier, tile.row, k * BK, strideA ? z : 0);
                TileB::load(slice + TileA::BYTES, map_b, barrier, tile.col, k * BK, strideB ? z : 0);
                ring.advance();
            }
    } else {
        take_registers<CONSUMERS, TILES * BN / 2>();
        const int first = (group - 1) * TILES;  // of the consumer's tiles of 64 rows
        float sums[TILES][BN / 2];
        multiply_slices<IN, TileA, TileB, BN>(sums, ring, slices, full, range.end - range.begin, first, [&](int stage) {
            if (threadIdx.x % GROUP_THREADS == 0) barrier_arrive(empty + 8 * stage);
        });
        const auto c = window(C + z * strideC, ldc, M, N, tile.row, tile.col);
        const bool whole = vectors_fit<2>(C, ldc) && strideC % 2 == 0 && c.holds(BM, BN);
        with_or_without_c(finish_at(tile.row, tile.col, alpha, beta, bias),
                          [&](const Finish<OUT>& finish, auto) { store_sums<BN>(c, first * 64, sums, finish, whole); });
    }
}
