// A k-tile of a few vectors in shared memory, in the order in which lanes read it.
//
//     ByLanes      lanes have different k: number k of vector v is at v * PITCH + k, so that a lane reads four adjacent
//                  k at once. With Apart, the four k of a lane are 32 apart in each 128, and are stored side by side
//     not ByLanes  lanes have the same k: it is at k * Vectors + v, so that a lane reads all vectors at once
#pragma once

#include "ptx/cp_async.cuh"

template <int Vectors, int Depth, bool ByLanes, bool Apart>
struct VectorTile {
    static constexpr int PITCH = Depth + 32 / Vectors;  // copies of several vectors go to different banks
    static constexpr int FLOATS = Vectors * Depth + 32;

    static __device__ __forceinline__ int place(int v, int k) {
        const int at = Apart ? k / 128 * 128 + k % 32 * 4 + k / 32 % 4 : k;
        return ByLanes ? v * PITCH + at : k * Vectors + v;
    }

    // Begins to copy `depth` of k, at most Depth, from `first` on; all Threads must call it. What is outside of
    // `vectors` vectors and of K = `end` becomes zero. KMajor: numbers of a vector are adjacent, else those of a k.
    template <int Threads, bool KMajor>
    static __device__ __forceinline__ void copy(float* tile, const float* source, long long ld, int vectors,
                                                unsigned first, unsigned end, unsigned depth) {
#pragma unroll 4
        for (int i = threadIdx.x; i < Vectors * Depth; i += Threads) {
            const unsigned v = KMajor ? i / Depth : i % Vectors, k = KMajor ? i % Depth : i / Vectors;
            const bool valid = v < vectors && first + k < end;
            const float* const from = source + (KMajor ? v * ld + first + k : (first + k) * ld + v);
            if (k < depth) cp_async_4_or_zero(tile + place(v, k), valid ? from : source, valid);
        }
        cp_async_commit();
    }
};
