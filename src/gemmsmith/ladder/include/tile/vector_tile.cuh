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

    // Begins to copy up to Depth of k, at most `depth`, from `first` on; all Threads must call it. What is outside of
    // `vectors` vectors and of K = `end` becomes zero. KMajor: numbers of a vector are adjacent, and a thread copies all
    // vectors of its k. Else those of a k are adjacent, and a thread copies its own vector.
    template <int Threads, bool KMajor>
    static __device__ __forceinline__ void copy(float* tile, const float* source, long long ld, int vectors,
                                                unsigned first, unsigned end, unsigned depth) {
        static_assert(Threads % Vectors == 0, "a thread has one vector");
        constexpr int APART = KMajor ? Threads : Threads / Vectors;  // k of a thread
        const unsigned to = shared_address(tile), own = threadIdx.x / (Threads / APART);
        const int vector = KMajor ? 0 : threadIdx.x % Vectors;
        const float* from = source + (KMajor ? first + own : (first + own) * ld + vector);
#pragma unroll 4
        for (unsigned k = own; k < min(depth, Depth); k += APART) {
            const float* each = from;
#pragma unroll
            for (int v = 0; v < (KMajor ? Vectors : 1); ++v) {
                const bool valid = vector + v < vectors && first + k < end;
                cp_async_4_or_zero(to + 4 * place(vector + v, k), valid ? each : source, valid ? 4 : 0);
                each += ld;
            }
            from += KMajor ? APART : APART * ld;
        }
        cp_async_commit();
    }
};
