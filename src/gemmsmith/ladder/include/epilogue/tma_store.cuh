// Staged outputs stored to C by TMA, while the warpgroup continues with its next tile.
#pragma once

#include "epilogue/staging.cuh"
#include "ptx/named_barrier.cuh"

// Stores the accumulators of a warpgroup through its own BUFFERS boxes at `staging`. `barrier` is the id of the
// warpgroup's named barrier. TOGETHER boxes are written, then handed to TMA together: all of them, because a fence costs
// more than a box of 16-bit outputs; of 32-bit outputs one, because fewer fit, and one is written while TMA reads
// others. The last stores are still in flight on return.
template <int BUFFERS, int Cols, int MTiles, class Out>
__device__ __forceinline__ void store_accumulators_by_tma(const TensorMap& map, unsigned staging, int barrier,
                                                          const Window<Out>& c, int row, int top, int left, int z,
                                                          float (&acc)[MTiles][Cols / 2],
                                                          const Epilogue<Out>& epilogue, bool whole) {
    constexpr int WIDTH = STAGED_COLS<Cols>, TOGETHER = sizeof(Out) == 4 ? 1 : BUFFERS;
    static_assert(Cols % (WIDTH * TOGETHER) == 0, "rounds of TOGETHER boxes");
    const bool leader = threadIdx.x % WARPGROUP_THREADS == 0;
#pragma unroll
    for (int i = 0; i < MTiles; ++i)
        for_each_box<Cols, WIDTH>(acc[i], [&](int box, const float (&box_acc)[WIDTH / 2]) {
            const int number = i * (Cols / WIDTH) + box;
            const unsigned buffer = staging + number % BUFFERS * STORE_BOX<Cols>;
            if (box % TOGETHER == 0) {
                if (leader && number == 0) tma_store_wait_read<0>();  // those of the tile before
                if (leader && number > 0) tma_store_wait_read<BUFFERS / TOGETHER - 1>();
                named_barrier_sync(barrier, WARPGROUP_THREADS);
            }
            stage_box<Cols>(buffer, c, row + i * 64, box * WIDTH, box_acc, epilogue, whole);
            if (box % TOGETHER == TOGETHER - 1) {
                fence_proxy_async();
                named_barrier_sync(barrier, WARPGROUP_THREADS);
                if (leader) {
#pragma unroll
                    for (int b = 1 - TOGETHER; b <= 0; ++b)
                        tma_store(map, buffer + b * STORE_BOX<Cols>, left + (box + b) * WIDTH, top + row + i * 64, z);
                    tma_store_commit();
                }
            }
        });
}
