// Narrower tail tiles in the last columns of C, so that the last wave is short.
//
// Large tiles move the least data. But 352 large tiles on 132 SMs are 2.67 waves and take the time of three. It is
// faster to use only as many columns of wide tiles as fill two waves, followed by narrower tail tiles:
//
//     | wide | wide | ... | wide | tail | tail | ... |
//
// Tiles are numbered consecutively, all wide ones first: a worker that had one wide tile less than others gets a tail
// tile next.
#pragma once

#include "ptx/shared_memory.cuh"

constexpr unsigned TILE_ENDS = 24;  // starting and ending a tile takes as long as this many of its columns

// Columns of tiles that cover C to the right of `left`. A tile is Cols columns per block and Beside blocks wide.
template <int Cols, int Beside>
__device__ __forceinline__ unsigned columns_after(unsigned left, int N) {
    return left < N ? (static_cast<int>(N - left) - 1) / (Cols * Beside) + 1 : 0;
}

// The number of columns of wide tiles that minimises the time of `workers`. A column has `height` tiles.
template <int Wide, int Tail, int Beside>
__device__ __forceinline__ unsigned wide_columns(int N, unsigned height, unsigned workers) {
    const auto waves_of = [=](unsigned columns) { return (columns * height + workers - 1) / workers; };
    unsigned best = columns_after<Wide, Beside>(0, N);
    const unsigned waves = waves_of(best);
    unsigned least = waves * (Wide + TILE_ENDS);
    for (unsigned fewer = 1; fewer <= 3 && fewer <= waves; ++fewer) {
        const unsigned wide = (waves - fewer) * workers / height;  // columns that fill this many waves
        const unsigned all = wide + columns_after<Tail, Beside>(wide * Wide * Beside, N), first = waves_of(wide);
        const unsigned time = first * (Wide + TILE_ENDS) + (waves_of(all) - first) * (Tail + TILE_ENDS);
        if (time < least) {
            least = time;
            best = wide;
        }
    }
    return best;
}

// The number of columns of wide tiles. With tail tiles it takes long to compute and registers are scarce, so one thread
// computes it and it is kept in shared memory.
template <int Wide, int Tail, int Beside>
struct WideColumns {
    unsigned value;  // its shared address; without tail tiles, the number itself

    // Must be followed by a barrier of the block before the number is read.
    __device__ __forceinline__ WideColumns(unsigned address, int N, unsigned height, unsigned workers) {
        if constexpr (Tail > 0) {
            value = address;
            if (threadIdx.x == 0) store_shared_4(address, wide_columns<Wide, Tail, Beside>(N, height, workers));
        } else {
            value = columns_after<Wide, Beside>(0, N);
        }
    }
    __device__ __forceinline__ unsigned operator()() const {
        if constexpr (Tail > 0)
            return load_shared_4(value);
        else
            return value;
    }
};

// The width of a tile, as a type.
template <int COLS>
struct Width {
    static constexpr int value = COLS;
};
