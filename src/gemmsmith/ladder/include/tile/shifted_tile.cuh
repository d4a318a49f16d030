// k-tiles of an unaligned operand, written to shared memory by threads in the layout that TMA would produce.
//
// A 16-byte chunk of a k-tile straddles two granules of the stored matrix. A thread loads both, shifts them together
// (shifted_chunk.cuh) and stores the chunk where the swizzle puts it. Elements outside the matrix become zero, as with
// TMA.
#pragma once

#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "tile/operand_tile.cuh"
#include "tile/shifted_chunk.cuh"
#include "tile/unaligned_rows.cuh"

// K_TILES k-tiles, one after another; `thread` of THREADS handles every THREADS-th chunk.
template <class T, int ROWS, class Tile, int K_TILES, int THREADS>
struct ShiftedTile {
    static constexpr int ACROSS = Tile::K_MAJOR ? BK / GRANULE : ROWS / GRANULE;  // chunks per line
    static constexpr int PER_K_TILE = ROWS * BK / GRANULE;                         // chunks per k-tile
    static constexpr int COUNT = K_TILES * PER_K_TILE / THREADS;
    static_assert(COUNT * THREADS == K_TILES * PER_K_TILE, "every thread has the same number of chunks");

    UnalignedRows<T> stored;
    int row;  // where the tile begins
    uint4 granules[COUNT][2];

    // A chunk: its line and column in the stored matrix, and how many of its elements are inside.
    struct Chunk {
        unsigned line, at, count;
    };
    __device__ __forceinline__ Chunk chunk(int number, unsigned k) const {
        const unsigned down = number % PER_K_TILE / ACROSS, right = number % ACROSS * GRANULE;
        const unsigned z = k + number / PER_K_TILE * BK;
        const unsigned line = (Tile::K_MAJOR ? row : z) + down, at = (Tile::K_MAJOR ? z : row) + right;
        const bool inside = line < static_cast<unsigned>(stored.lines) && at < static_cast<unsigned>(stored.length);
        return {line, at, inside ? min(stored.length - at, unsigned{GRANULE}) : 0};
    }

    // Loads the granules of the k-tiles at k into registers.
    __device__ __forceinline__ void begin_load(unsigned, unsigned, unsigned k, int thread) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const Chunk c = chunk(i * THREADS + thread, k);
            const unsigned skew = stored.skew(c.line, c.at);
            const T* const element = stored.matrix + c.line * stored.ld + c.at - skew;
            const uint4* const from = reinterpret_cast<const uint4*>(element);
            granules[i][0] = c.count > 0 ? from[0] : make_uint4(0, 0, 0, 0);
            granules[i][1] = skew + c.count > GRANULE ? from[1] : make_uint4(0, 0, 0, 0);
        }
    }

    // Stores them to a stage, and arrives at its barrier.
    __device__ __forceinline__ void finish_load(unsigned stage, unsigned barrier, unsigned k, int thread) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int number = i * THREADS + thread, across = number % ACROSS;
            const Chunk c = chunk(number, k);
            const unsigned line = number % PER_K_TILE / ACROSS + (Tile::K_MAJOR ? 0 : across / 8 * BK);
            const unsigned offset = number / PER_K_TILE * Tile::BYTES + line * BOX_ROW + (across % 8 ^ line % 8) * 16;
            store_shared_16(stage + offset,
                            first_of(shifted(granules[i][0], granules[i][1], stored.skew(c.line, c.at)), c.count));
        }
        fence_proxy_async();
        mbarrier_arrive(barrier);
    }
};
