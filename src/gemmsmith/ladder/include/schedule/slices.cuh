// Slices of K: several blocks multiply the same tile, each over a slice of K; then each adds up a part of the tile.
//
//     slice 0   [ k 0 ... ]   -> partial sums -> workspace   \/   -> adds its part of all slices, and stores it
//     slice 1   [ ... K-1 ]   -> partial sums -> workspace   /\   -> adds its part of all slices, and stores it
//
// Partial sums are added in the order of k, so the result does not depend on timing. All blocks of the grid must be
// resident: the blocks of a tile wait for each other.
#pragma once

#include "ptx/named_barrier.cuh"
#include "schedule/flags.cuh"
#include "tile/warpgroup.cuh"

// The workspace: a counter for each warpgroup's part of a tile, which must be 0, then the partial sums. Vectors of four
// accumulators of adjacent threads are adjacent.
struct SliceWorkspace {
    unsigned* counters;
    Vec<float, 4>* sums;

    __device__ __forceinline__ SliceWorkspace(unsigned char* workspace, unsigned count)
        : counters(reinterpret_cast<unsigned*>(workspace)),
          sums(reinterpret_cast<Vec<float, 4>*>(workspace + flag_bytes(count))) {}
};

// How slices of tiles are numbered: those of the first slice of all tiles, then those of the second ... so that blocks
// with adjacent numbers share operands. Blocks wait for each other, so every slice must have its own cluster; where there
// are too few, tiles have one slice.
template <int Most>
struct Slices {
    unsigned tiles, count;

    __device__ __forceinline__ Slices(unsigned tiles_, unsigned clusters)
        : tiles(tiles_), count(tiles_ * Most <= clusters ? Most : 1) {}
    __device__ __forceinline__ unsigned tile(unsigned t) const { return Most == 1 || count == 1 ? t : t % tiles; }
    __device__ __forceinline__ unsigned slice(unsigned t) const { return Most == 1 || count == 1 ? 0 : t / tiles; }
};

// Adds up the accumulators of the `slices` warpgroups that call this with the same `number`, and calls
// `store(i, sum)` with a part of the vectors: i is its index among those of a thread. There are at most Slices.
template <int Slices, int Cols, int MTiles, class Store>
__device__ __forceinline__ void add_slices(const SliceWorkspace& workspace, unsigned number, int slice, int slices,
                                           int barrier, const float (&acc)[MTiles][Cols / 2],
                                           const Store& store) {
    constexpr int FOURS = MTiles * Cols / 8;
    const int thread = threadIdx.x % WARPGROUP_THREADS;
    unsigned* const counter = workspace.counters + number;
    Vec<float, 4>* const sums =
        workspace.sums + static_cast<size_t>(number) * (Slices * FOURS * WARPGROUP_THREADS) + thread;
#pragma unroll
    for (int i = 0; i < FOURS; ++i)
        sums[(slice * FOURS + i) * WARPGROUP_THREADS] =
            *reinterpret_cast<const Vec<float, 4>*>(&acc[i / (Cols / 8)][i % (Cols / 8) * 4]);
    __threadfence();
    named_barrier_sync(barrier, WARPGROUP_THREADS);
    if (thread == 0) {
        __threadfence();
        atomicAdd(counter, 1);
        while (load_acquire(counter) < slices) {
        }
    }
    named_barrier_sync(barrier, WARPGROUP_THREADS);
    // Loads of several vectors are in flight together: one alone takes a microsecond.
    constexpr int TOGETHER = Slices > 8 ? 1 : 16 / Slices;
    const int end = FOURS * (slice + 1) / slices;
    for (int first = FOURS * slice / slices; first < end; first += TOGETHER) {
        Vec<float, 4> parts[TOGETHER][Slices];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i)
#pragma unroll
            for (int s = 0; s < Slices; ++s)
                if (s < slices && first + i < end)
                    parts[i][s] = load_from_l2(&sums[(s * FOURS + first + i) * WARPGROUP_THREADS]);
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
#pragma unroll
            for (int s = 1; s < Slices; ++s)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (s < slices) parts[i][0].at[e] = __fadd_rn(parts[i][0].at[e], parts[i][s].at[e]);
            if (first + i < end) store(first + i, parts[i][0]);
        }
    }
}
