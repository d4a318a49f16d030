// Staged outputs stored to C by TMA, while the warpgroup continues with its next tile.
#pragma once

#include "epilogue/staging.cuh"
#include "ptx/named_barrier.cuh"

// Stores the accumulators of a warpgroup through its own BUFFERS boxes at `staging`. `barrier` is the id of the
// warpgroup's named barrier. BUFFERS boxes are written, then handed to TMA together, because a fence costs more than a
// box. The last stores are still in flight on return.
template <int BUFFERS, int Cols, int MTiles, class Out>
__device__ __forceinline__ void store_accumulators_by_tma(const TensorMap& map, unsigned staging, int barrier,
                                                          const Window<Out>& c, int row, int top, int left, int z,
                                                          float (&acc)[MTiles][Cols / 2],
                                                          const Epilogue<Out>& epilogue, bool whole) {
    constexpr int WIDTH = BOX_COLS<Cols>;
    static_assert(Cols % (WIDTH * BUFFERS) == 0, "rounds of BUFFERS boxes");
    const bool leader = threadIdx.x % WARPGROUP_THREADS == 0;
#pragma unroll
    for (int i = 0; i < MTiles; ++i)
        for_each_box<Cols>(acc[i], [&](int box, const float (&box_acc)[WIDTH / 2]) {
            const unsigned buffer = staging + box % BUFFERS * STORE_BOX<Cols>;
            if (box % BUFFERS == 0) {
                if (leader) tma_store_wait_read<0>();
                named_barrier_sync(barrier, WARPGROUP_THREADS);
            }
            stage_box<Cols>(buffer, c, row + i * 64, box * WIDTH, box_acc, epilogue, whole);
            if (box % BUFFERS == BUFFERS - 1) {
                fence_proxy_async();
                named_barrier_sync(barrier, WARPGROUP_THREADS);
                if (leader) {
#pragma unroll
                    for (int b = 0; b < BUFFERS; ++b)
                        tma_store(map, staging + b * STORE_BOX<Cols>, left + (box - BUFFERS + 1 + b) * WIDTH,
                                  top + row + i * 64, z);
                    tma_store_commit();
                }
            }
        });
}
