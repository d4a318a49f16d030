// Copying tiles of A and B from global memory into swizzled shared memory, 16 bytes at a time.
//
// A thread always copies the same chunk of rows that lie a constant distance apart, so everything it needs in the main
// loop is one address on each side and constants.
#pragma once

#include "ptx/cp_async.cuh"
#include "ptx/mma.cuh"
#include "tile/swizzle.cuh"
#include "tile/vector.cuh"

// How a tile is copied. WHOLE: all of it lies in the matrix. EDGES: what lies outside becomes zero. ELEMENTS: the
// same, where rows do not start on 16 bytes: one by one, through registers, without running ahead.
enum class Copy { WHOLE, EDGES, ELEMENTS };

template <Copy How>
struct CopyMode {
    static constexpr Copy value = How;
};

// 16 bytes, of which the first `bytes` come from global memory and the others are zero.
__device__ __forceinline__ void cp_async_16_or_zero(unsigned shared, const void* global, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_16(unsigned shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// The share of one of Threads threads in copying the tiles of one operand, one after another along k.
template <class Tile, int Threads>
struct TileCopy {
    using T = typename Tile::Element;
    static constexpr int PASS = Threads / Tile::CHUNKS;  // rows that all threads together copy at a time
    static constexpr int COUNT = (Tile::ROWS - 1) / PASS + 1;
    static_assert(Threads % Tile::CHUNKS == 0, "a thread stays in its column of chunks");

    const T* matrix;
    const T* source;  // this thread's first chunk
    long long ld;
    int row, chunk, rows_left, cols_left;  // its place in the tile, and what is left of the matrix from there on
    unsigned target;

    // For the tiles that begin at row (of A) or column (of B) number `first` of `extent`.
    __device__ __forceinline__ TileCopy(const T* matrix, long long ld, int first, int extent, int K)
        : matrix(matrix), ld(ld), row(threadIdx.x / Tile::CHUNKS), chunk(threadIdx.x % Tile::CHUNKS) {
        source = matrix + first * (Tile::ALONG_K ? ld : 1) + row * ld + chunk * Tile::PER_CHUNK;
        rows_left = (Tile::ALONG_K ? extent - first : K) - row;
        cols_left = (Tile::ALONG_K ? K : extent - first) - chunk * Tile::PER_CHUNK;
        target = Tile::place(row, chunk);
    }

    // Copies part number `part` of `parts` of the thread's share into the tile at `shared`.
    template <Copy How>
    __device__ __forceinline__ void copy(unsigned shared, int part = 0, int parts = 1) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (i * parts / COUNT != part) continue;
            if (Tile::ROWS % PASS != 0 && row + i * PASS >= Tile::ROWS) continue;
            // mix repeats after MIX_PERIOD rows: further rows then lie at constant distances.
            const unsigned place =
                PASS % Tile::MIX_PERIOD == 0 ? target + i * PASS * Tile::PITCH : Tile::place(row + i * PASS, chunk);
            const T* const from = source + i * PASS * ld;
            if constexpr (How == Copy::WHOLE) {
                cp_async_16(shared + place, from);
            } else {
                const int valid = i * PASS < rows_left ? max(0, min(cols_left, Tile::PER_CHUNK)) : 0;
                if constexpr (How == Copy::EDGES)  // the address must be legal even if nothing is read
                    cp_async_16_or_zero(shared + place, valid ? from : matrix, valid * int(sizeof(T)));
                else
                    store_shared_16(shared + place, gathered(from, valid));
            }
        }
    }

    __device__ __forceinline__ void advance() {
        source += Tile::ALONG_K ? Tile::BK : Tile::BK * ld;
        (Tile::ALONG_K ? cols_left : rows_left) -= Tile::BK;
    }

private:
    static __device__ __forceinline__ uint4 gathered(const T* from, int valid) {
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
