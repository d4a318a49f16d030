// The way back through the copy engine: outputs go to shared memory in boxes of 64 x 64 (stmatrix, swizzled as tma.cuh
// says), and the copy engine writes them while the group goes on with its next tile.
#pragma once

#include "warp_group.cuh"

// Four 8 x 8 matrices of 16-bit elements; lanes 8 i to 8 i + 7 give the rows of matrix i.
__device__ __forceinline__ void stmatrix_x4(unsigned address, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

// Stores the sums of a group through its own BUFFERS boxes at `staging`; `barrier` is the group's. The stores are still
// under way at the end.
template <int BUFFERS, int Cols, int Tiles, class Out>
__device__ __forceinline__ void store_sums_by_tma(const TensorMap& map, unsigned staging, int barrier,
                                                  const Window<Out>& c, int row, int top, int left, int z,
                                                  float (&sums)[Tiles][Cols / 2], const Finish<Out>& finish, bool whole) {
    static_assert(sizeof(Out) == 2 && Cols % 64 == 0, "boxes of 64 outputs of 16 bits");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const bool leader = threadIdx.x % GROUP_THREADS == 0;
    const int line = warp * 16 + lane % 16;  // of the box, where this lane's 16 bytes of each stmatrix go
    int box = 0;
#pragma unroll
    for (int i = 0; i < Tiles; ++i)
        for_each_chunk<Cols>(sums[i], [&](int chunk, const float (&part)[32]) {
            const unsigned buffer = staging + box % BUFFERS * BOX_BYTES;
            ++box;
            if (leader) tma_store_wait_read<BUFFERS - 1>();
            group_sync(barrier, GROUP_THREADS);
#pragma unroll
            for (int j = 0; j < 8; j += 2) {
                unsigned packed[4];
#pragma unroll
                for (int p = 0; p < 4; ++p) {
                    const auto pair = finished_vector<2>(
                        c, row + i * 64 + warp * 16 + p % 2 * 8 + lane / 4, chunk * 64 + (j + p / 2) * 8 + lane % 4 * 2,
                        &part[(j + p / 2) * 4 + p % 2 * 2], finish, whole);
                    packed[p] = reinterpret_cast<const unsigned&>(pair);
                }
                stmatrix_x4(buffer + line * BOX_ROW + ((j + lane / 16) ^ line % 8) * 16, packed);
            }
            async_proxy_fence();
            group_sync(barrier, GROUP_THREADS);
            if (leader) {
                tma_store(map, buffer, left + chunk * 64, top + row + i * 64, z);
                tma_store_commit();
            }
        });
}
