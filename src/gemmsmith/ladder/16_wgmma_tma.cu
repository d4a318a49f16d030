// 16 wgmma_tma: copies and products that need no thread.
//
// Idea      Hopper's copy engine fetches whole boxes of A and B when one thread asks for them, and wgmma reads its
//           operands from shared memory by itself. So threads neither compute addresses nor hold fragments: a slice is
//           two or three copy instructions of one thread and four product instructions of each group of 128.
// Changed   From 15: no cp.async, no ldmatrix, no swizzle arithmetic; the box layout of tma.cuh does it all. A slice
//           has arrived when its mbarrier says that all its bytes have.
// Owns      A block owns BM x BN outputs; each group of 128 threads 64 rows of them. Slices are 64 of k, 128 bytes a
//           row:
//
//              A: BM rows x 64 of k        B: 64 of k x BN columns       (either may run along the other side)
//
// Budget    STAGES * (BM + BN) * 128 bytes of shared memory, BN / 2 sums a thread.
// Needs     sm_90a; rows of A and B that start on 16 bytes.
// Try next  All groups stop at a barrier before a slice is asked for again: 17 gives the asking to a group of its own.

#include "schedule/grouped_order.cuh"
#include "tile/warpgroup.cuh"

constexpr int THREADS = GROUP_THREADS * (BM / 64);
using TileA = OperandTile<BM, !TRANS_A>;
using TileB = OperandTile<BN, TRANS_B>;
constexpr int SLICE = TileA::BYTES + TileB::BYTES;

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     float beta, OUT* C, long long ldc, const OUT* __restrict__ bias, long long strideA, long long strideB,
     long long strideC) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned slices = shared_address(shared), full = slices + STAGES * SLICE;
    const SliceRange range = slice_range(K, alpha);
    const int z = blockIdx.z, steps = range.end - range.begin;
    const Tile tile = grouped_tile<BM, BN, 8>(M, N);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) barrier_init(full + 8 * i, 1);
        barrier_init_done();
        prefetch_map(map_a);
        prefetch_map(map_b);
    }
    __syncthreads();
    start_next_and_wait_for_previous();

    const auto load = [&](int step) {  // by one thread
        const unsigned slice = slices + step % STAGES * SLICE, barrier = full + step % STAGES * 8;
        const int k = (range.begin + step) * BK;
        barrier_expect(barrier, SLICE);
        TileA::load(slice, map_a, barrier, tile.row, k, strideA ? z : 0);
        TileB::load(slice + TileA::BYTES, map_b, barrier, tile.col, k, strideB ? z : 0);
    };
    if (threadIdx.x == 0)
        for (int step = 0; step < min(STAGES, steps); ++step) load(step);
    const int group = threadIdx.x / GROUP_THREADS;
    float sums[1][BN / 2];
    Ring<STAGES> ring;
    for (int step = 0; step < steps; ++step) {
        barrier_wait(full + 8 * ring.stage, ring.parity);
        multiply_slice<IN, TileA, TileB, BN>(sums, slices + ring.stage * SLICE, group, step > 0);
        wgmma_wait<0>();
        __syncthreads();  // all groups have read the slice: its place may be filled again
        if (threadIdx.x == 0 && step + STAGES < steps) load(step + STAGES);
        ring.advance();
    }

    const auto c = window(C + z * strideC, ldc, M, N, tile.row, tile.col);
    const bool whole = vectors_fit<2>(C, ldc) && strideC % 2 == 0 && c.holds(BM, BN);
    with_or_without_c(finish_at(tile.row, tile.col, alpha, beta, bias),
                      [&](const Finish<OUT>& finish, auto) { store_sums<BN>(c, group * 64, sums, finish, whole); });
}
