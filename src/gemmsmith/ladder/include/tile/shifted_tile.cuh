// Slices of an operand whose rows start anywhere, in shared memory as the copy engine would have written them.
//
// A chunk of 16 bytes of a slice lies across two granules of the stored matrix. A thread loads both, shifts them
// together (shifted_chunk.cuh) and writes the chunk to the place that the swizzle gives it. What lies beyond the matrix
// becomes zero, as the copy engine has it.
#pragma once

#include "tile/unaligned_rows.cuh"
#include "tile/operand_tile.cuh"
#include "ptx/shared_loads.cuh"
#include "tile/shifted_chunk.cuh"

// SLICES of them, one after another; `thread` of THREADS has every THREADS-th chunk.
template <class T, int ROWS, class Tile, int SLICES, int THREADS>
struct ShiftedTile {
    static constexpr int ACROSS = Tile::K_MAJOR ? BK / GRANULE : ROWS / GRANULE;  // chunks of a line
    static constexpr int OF_A_SLICE = ROWS * BK / GRANULE;
    static constexpr int COUNT = SLICES * OF_A_SLICE / THREADS;
    static_assert(COUNT * THREADS == SLICES * OF_A_SLICE, "every thread has as many chunks");

    AnyRows<T> stored;
    int row;  // where the tile begins
    uint4 granules[COUNT][2];

    // A chunk: its line and place in the stored matrix, and how many elements that has there.
    struct Chunk {
        unsigned line, at, count;
    };
    __device__ __forceinline__ Chunk chunk(int number, unsigned k) const {
        const unsigned down = number % OF_A_SLICE / ACROSS, right = number % ACROSS * GRANULE;
        const unsigned z = k + number / OF_A_SLICE * BK;
        const unsigned line = (Tile::K_MAJOR ? row : z) + down, at = (Tile::K_MAJOR ? z : row) + right;
        const bool inside = line < static_cast<unsigned>(stored.lines) && at < static_cast<unsigned>(stored.length);
        return {line, at, inside ? min(stored.length - at, unsigned{GRANULE}) : 0};
    }

    // Asks for the granules of the slices at k.
    __device__ __forceinline__ void ask(unsigned, unsigned, unsigned k, int thread) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const Chunk c = chunk(i * THREADS + thread, k);
            const unsigned before = stored.skew(c.line, c.at);
            const T* const element = stored.matrix + c.line * stored.ld + c.at - before;
            const uint4* const from = reinterpret_cast<const uint4*>(element);
            granules[i][0] = c.count > 0 ? from[0] : make_uint4(0, 0, 0, 0);
            granules[i][1] = before + c.count > GRANULE ? from[1] : make_uint4(0, 0, 0, 0);
        }
    }

    // Writes them to a stage's slices, and tells its barrier.
    __device__ __forceinline__ void settle(unsigned slices, unsigned barrier, unsigned k, int thread) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int number = i * THREADS + thread, across = number % ACROSS;
            const Chunk c = chunk(number, k);
            const unsigned line = number % OF_A_SLICE / ACROSS + (Tile::K_MAJOR ? 0 : across / 8 * BK);
            const unsigned place = number / OF_A_SLICE * Tile::BYTES + line * BOX_ROW + (across % 8 ^ line % 8) * 16;
            store_shared_16(slices + place,
                            first_of(shifted(granules[i][0], granules[i][1], stored.skew(c.line, c.at)), c.count));
        }
        async_proxy_fence();
        barrier_arrive(barrier);
    }
};
