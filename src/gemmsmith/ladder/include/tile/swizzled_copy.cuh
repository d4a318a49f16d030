// Copies tiles of A and B from global memory into swizzled shared memory, 16 bytes at a time.
//
// A thread always copies the same chunk of rows that are a constant distance apart. So all it needs in the mainloop is
// one address on each side, and constants.
#pragma once

#include "ptx/cp_async.cuh"
#include "tile/swizzle.cuh"
#include "tile/vector.cuh"

// FULL: the whole tile is inside the matrix. GUARDED: elements outside become zero. ELEMENTWISE: the same for rows
// that do not start on 16 bytes: one element at a time through registers, without asynchronous copies.
enum class Copy { FULL, GUARDED, ELEMENTWISE };

template <Copy Mode>
struct CopyMode {
    static constexpr Copy value = Mode;
};

// One thread's share in copying the tiles of one operand, one after another along k.
template <class Tile, int Threads>
struct SwizzledCopy {
    using T = typename Tile::Element;
    static constexpr int PASS = Threads / Tile::CHUNKS;  // rows that all threads together copy at a time
    static constexpr int COUNT = (Tile::ROWS - 1) / PASS + 1;
    static_assert(Threads % Tile::CHUNKS == 0, "a thread stays in its column of chunks");

    const T* matrix;
    const T* source;  // this thread's first chunk
    long long ld;
    int row, chunk, rows_left, cols_left;  // its position in the tile, and the distance from there to the matrix edge
    unsigned target;

    // For the tiles that begin at row (of A) or column (of B) number `first` of `extent`.
    __device__ __forceinline__ SwizzledCopy(const T* matrix, long long ld, int first, int extent, int K)
        : matrix(matrix), ld(ld), row(threadIdx.x / Tile::CHUNKS), chunk(threadIdx.x % Tile::CHUNKS) {
        source = matrix + first * (Tile::K_MAJOR ? ld : 1) + row * ld + chunk * Tile::PER_CHUNK;
        rows_left = (Tile::K_MAJOR ? extent - first : K) - row;
        cols_left = (Tile::K_MAJOR ? K : extent - first) - chunk * Tile::PER_CHUNK;
        target = Tile::offset(row, chunk);
    }

    // Copies portion number `portion` of `portions` of the thread's share into the tile at `shared`.
    template <Copy Mode>
    __device__ __forceinline__ void copy(unsigned shared, int portion = 0, int portions = 1) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (i * portions / COUNT != portion) continue;
            if (Tile::ROWS % PASS != 0 && row + i * PASS >= Tile::ROWS) continue;
            // Rows a multiple of SWIZZLE_PERIOD apart have the same swizzle: their offsets differ by a constant.
            const unsigned offset = PASS % Tile::SWIZZLE_PERIOD == 0 ? target + i * PASS * Tile::PITCH
                                                                     : Tile::offset(row + i * PASS, chunk);
            const T* const from = source + i * PASS * ld;
            if constexpr (Mode == Copy::FULL) {
                cp_async_16(shared + offset, from);
            } else {
                const int valid = i * PASS < rows_left ? max(0, min(cols_left, Tile::PER_CHUNK)) : 0;
                if constexpr (Mode == Copy::GUARDED)  // the address must be legal even if nothing is read
                    cp_async_16_or_zero(shared + offset, valid ? from : matrix, valid * int(sizeof(T)));
                else
                    store_shared_16(shared + offset, gather(from, valid));
            }
        }
    }

    __device__ __forceinline__ void advance() {
        source += Tile::K_MAJOR ? Tile::BK : Tile::BK * ld;
        (Tile::K_MAJOR ? cols_left : rows_left) -= Tile::BK;
    }

private:
    // A chunk whose first `valid` elements are read one by one; the others are zero.
    static __device__ __forceinline__ uint4 gather(const T* from, int valid) {
        union {
            Vec<T, Tile::PER_CHUNK> elements;
            uint4 chunk;
        };
        chunk = make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < Tile::PER_CHUNK; ++j)
            if (j < valid) elements.at[j] = from[j];
        return chunk;
    }
};
