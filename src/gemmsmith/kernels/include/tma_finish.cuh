// The way back through the copy engine: outputs go to shared memory in boxes of 64 rows (stmatrix), and the copy engine
// writes them while the group goes on with its next tile.
//
// A box is as wide as divides the tile: 64 columns of 16 bits where possible, else 32 or 16. Its 16-byte chunks are
// exchanged, as in tma.cuh, so that the eight rows which an stmatrix writes lie in different banks: for 64 columns the
// chunk number is XORed with row % 8, for 32 with row / 2 % 4, for 16 with row / 4 % 2.
#pragma once

#include "warp_group.cuh"

// Four 8 x 8 matrices of 16-bit elements; lanes 8 i to 8 i + 7 give the rows of matrix i.
__device__ __forceinline__ void stmatrix_x4(unsigned address, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

template <int Cols>
constexpr int STORE_BOX = 64 * CHUNK<Cols> * 2;  // bytes

// Stores the sums of a group through its own BUFFERS boxes at `staging`; `barrier` is the group's. BUFFERS boxes are
// written, then handed over together, since a fence costs more than a box. The last stores are still under way at the
// end.
template <int BUFFERS, int Cols, int Tiles, class Out>
__device__ __forceinline__ void store_sums_by_tma(const TensorMap& map, unsigned staging, int barrier,
                                                  const Window<Out>& c, int row, int top, int left, int z,
                                                  float (&sums)[Tiles][Cols / 2], const Finish<Out>& finish,
                                                  bool whole) {
    constexpr int WIDTH = CHUNK<Cols>, PIECES = WIDTH / 8;  // pieces of 16 bytes in a box row
    static_assert(sizeof(Out) == 2 && Cols % (WIDTH * BUFFERS) == 0, "rounds of BUFFERS boxes of 16-bit outputs");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const bool leader = threadIdx.x % GROUP_THREADS == 0;
    const int line = warp * 16 + lane % 16;  // of the box, where this lane's 16 bytes of each stmatrix go
#pragma unroll
    for (int i = 0; i < Tiles; ++i)
        for_each_chunk<Cols>(sums[i], [&](int chunk, const float (&part)[WIDTH / 2]) {
            const unsigned buffer = staging + chunk % BUFFERS * STORE_BOX<Cols>;
            if (chunk % BUFFERS == 0) {
                if (leader) tma_store_wait_read<0>();
                group_sync(barrier, GROUP_THREADS);
            }
#pragma unroll
            for (int j = 0; j < PIECES; j += 2) {
                unsigned packed[4];
#pragma unroll
                for (int p = 0; p < 4; ++p) {
                    const int r = row + i * 64 + warp * 16 + p % 2 * 8 + lane / 4, piece = j + p / 2;
                    const auto pair = finished_vector<2>(c, r, chunk * WIDTH + piece * 8 + lane % 4 * 2,
                                                         &part[piece * 4 + p % 2 * 2], finish, whole);
                    packed[p] = reinterpret_cast<const unsigned&>(pair);
                }
                stmatrix_x4(buffer + line * WIDTH * 2 + ((j + lane / 16) ^ line / (8 / PIECES) % PIECES) * 16, packed);
            }
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
