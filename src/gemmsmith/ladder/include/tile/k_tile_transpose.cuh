// Copies k-tiles of a K-major operand into shared memory in the layout of k_tile_copy.cuh, a line for each k, by way of
// registers: a thread loads 16 bytes along k, four k of one row, and stores them to four lines. Copies of 4 bytes
// (KTileCopy) need no registers, but four times as many requests.
//
// A warp stores ROWS rows of ACROSS chunks of four k. Every fourth line begins ROWS floats later, so these 32 numbers
// are in 32 different banks. The operand's rows start on 16 bytes; or on 8, then a chunk takes two loads (Wide = 2).
#pragma once

#include "ptx/shared_memory.cuh"
#include "tile/k_tile_copy.cuh"

template <int Extent, int Depth, int Threads, int Wide>
struct KTileTranspose {
    static constexpr int CHUNKS = Depth / 4;                     // of a row of the k-tile
    static constexpr int ACROSS = CHUNKS < 8 ? CHUNKS : 8;       // threads along a row
    static constexpr int ROWS = 32 / ACROSS;                     // of a warp
    static constexpr int BYTES = 4 * (Depth * Extent + CHUNKS * ROWS);
    static constexpr int PASS = Threads / ACROSS;                // rows per pass of all threads
    static constexpr int PER_ROW = CHUNKS / ACROSS;
    static constexpr int COUNT = ((Extent - 1) / PASS + 1) * PER_ROW;
    static_assert(Extent % 8 == 0 && CHUNKS % ACROSS == 0 && Threads % ACROSS == 0, "threads share a row equally");

    const float* source;  // this thread's first chunk of the k-tile
    long long ld;
    int row, below, floats_left;  // its first row, how many follow it, and the distance from its first k to the end
    unsigned target;
    float4 chunks[COUNT] = {};

    // Floats from the start of a k-tile to the line of k.
    static __device__ __forceinline__ constexpr int line_of(int k) { return k * Extent + k / 4 * ROWS; }

    // As KTileCopy's.
    __device__ __forceinline__ KTileTranspose(unsigned shared, const float* matrix, long long ld, int first, int extent,
                                              int k, int K)
        : ld(ld), row(threadIdx.x / ACROSS) {
        const int along = threadIdx.x % ACROSS * 4;
        below = max(0, extent - 1 - first - row);
        source = matrix + min(first + row, extent - 1) * ld + k + along;
        floats_left = K - k - along;
        target = shared + 4 * (line_of(along) + row);
    }

    // Loads the thread's chunks of a k-tile. With a guard, elements behind K become zero, and the last row is loaded in
    // place of those behind it: their products are outside C. Without one the whole k-tile must be inside.
    template <bool Guard>
    __device__ __forceinline__ void copy(unsigned) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (!has(i)) continue;
            if constexpr (Guard) chunks[i] = make_float4(0, 0, 0, 0);
            if (!Guard || floats_left - right_of(i) >= 4)
                chunks[i] = load_chunk(chunk_at<Guard>(i));
        }
        if (!Guard || floats_left % 4 == 0) return;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {  // K ends within a chunk
            const float* const from = chunk_at<Guard>(i);
            const int valid = floats_left - right_of(i);
            if (has(i) && valid > 0 && valid < 4)
                chunks[i] = make_float4(from[0], valid > 1 ? from[1] : 0, valid > 2 ? from[2] : 0, 0);
        }
    }

    // Stores them to the k-tile `offset` bytes after the first.
    __device__ __forceinline__ void finish(unsigned offset) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (!has(i)) continue;
            const unsigned to = target + offset + 4 * (line_of(right_of(i)) + down_to(i));
            store_shared_4(to, __float_as_uint(chunks[i].x));
            store_shared_4(to + 4 * Extent, __float_as_uint(chunks[i].y));
            store_shared_4(to + 8 * Extent, __float_as_uint(chunks[i].z));
            store_shared_4(to + 12 * Extent, __float_as_uint(chunks[i].w));
        }
    }

    __device__ __forceinline__ void advance() {
        source += Depth;
        floats_left -= Depth;
    }

private:
    // Where chunk i is, from the first one: rows down, and floats to the right; and whether the k-tile has it.
    static __device__ __forceinline__ constexpr int down_to(int i) { return i / PER_ROW * PASS; }
    static __device__ __forceinline__ constexpr int right_of(int i) { return i % PER_ROW * ACROSS * 4; }
    __device__ __forceinline__ bool has(int i) const { return Extent % PASS == 0 || row + down_to(i) < Extent; }

    static __device__ __forceinline__ float4 load_chunk(const float* from) {
        if constexpr (Wide == 4) return *reinterpret_cast<const float4*>(from);
        const float2 low = reinterpret_cast<const float2*>(from)[0], high = reinterpret_cast<const float2*>(from)[1];
        return make_float4(low.x, low.y, high.x, high.y);
    }
    template <bool Guard>
    __device__ __forceinline__ const float* chunk_at(int i) const {
        return source + (Guard ? min(down_to(i), below) : down_to(i)) * ld + right_of(i);
    }
};

// KTileTranspose where ByRegisters and rows start on 16 bytes (Aligned = 1) or on 8 (2), else KTileCopy.
template <bool ByRegisters, int Extent, int Depth, int Threads, bool Transposed, int Aligned>
struct KTileLoader : KTileCopy<Extent, Depth, Threads, Transposed, Aligned == 1> {
    using KTileCopy<Extent, Depth, Threads, Transposed, Aligned == 1>::KTileCopy;
};
template <int Extent, int Depth, int Threads>
struct KTileLoader<true, Extent, Depth, Threads, true, 1> : KTileTranspose<Extent, Depth, Threads, 4> {
    using KTileTranspose<Extent, Depth, Threads, 4>::KTileTranspose;
};
template <int Extent, int Depth, int Threads>
struct KTileLoader<true, Extent, Depth, Threads, true, 2> : KTileTranspose<Extent, Depth, Threads, 2> {
    using KTileTranspose<Extent, Depth, Threads, 2>::KTileTranspose;
};
