// The way back through the copy engine: it takes staged outputs to C while the group goes on with its next tile.
#pragma once

#include "epilogue/staging.cuh"

// Stores the sums of a group through its own BUFFERS boxes at `staging`; `barrier` is the group's. BUFFERS boxes are
// written, then handed over together, since a fence costs more than a box. The last stores are still under way at the
// end.
template <int BUFFERS, int Cols, int Tiles, class Out>
__device__ __forceinline__ void store_sums_by_tma(const TensorMap& map, unsigned staging, int barrier,
                                                  const Window<Out>& c, int row, int top, int left, int z,
                                                  float (&sums)[Tiles][Cols / 2], const Finish<Out>& finish,
                                                  bool whole) {
    constexpr int WIDTH = CHUNK<Cols>;
    static_assert(Cols % (WIDTH * BUFFERS) == 0, "rounds of BUFFERS boxes");
    const bool leader = threadIdx.x % GROUP_THREADS == 0;
#pragma unroll
    for (int i = 0; i < Tiles; ++i)
        for_each_chunk<Cols>(sums[i], [&](int chunk, const float (&part)[WIDTH / 2]) {
            const unsigned buffer = staging + chunk % BUFFERS * STORE_BOX<Cols>;
            if (chunk % BUFFERS == 0) {
                if (leader) tma_store_wait_read<0>();
                group_sync(barrier, GROUP_THREADS);
            }
            stage_chunk<Cols>(buffer, c, row + i * 64, chunk * WIDTH, part, finish, whole);
            if (chunk % BUFFERS == BUFFERS - 1) {
                async_proxy_fence();
                group_sync(barrier, GROUP_THREADS);
                if (leader) {
#pragma unroll
                    for (int b = 0; b < BUFFERS; ++b)
                        tma_store(map, staging + b * STORE_BOX<Cols>, left + (chunk - BUFFERS + 1 + b) * WIDTH,
                                  top + row + i * 64, z);
                    tma_store_commit();
                }
            }
        });
}
