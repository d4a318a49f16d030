// A C whose last columns have narrower tiles, so that the last wave of blocks is a short one.
//
// Large tiles move least, but 352 of them on 132 SMs are two waves and two thirds, and take three. Fewer columns of
// large tiles, which fill two waves, and narrower ones behind them take less:
//
//     | wide | wide | ... | wide | narrow | narrow | ... |
//
// Tiles are numbered through, first all wide ones, and whoever has had one wide tile less goes on with a narrow one.
#pragma once

#include "ptx/shared_loads.cuh"

constexpr unsigned TILE_ENDS = 24;  // beginning and end of a tile take as long as so many columns of it

// Columns of tiles that cover what is right of `left`; a tile is Cols columns a block and Beside blocks across.
template <int Cols, int Beside>
__device__ __forceinline__ unsigned columns_after(unsigned left, int N) {
    return left < N ? (static_cast<int>(N - left) - 1) / (Cols * Beside) + 1 : 0;
}

// How many columns of wide tiles there should be, for the least time of `workers`. A column has `height` tiles.
template <int Wide, int Narrow, int Beside>
__device__ __forceinline__ unsigned wide_columns(int N, unsigned height, unsigned workers) {
    const auto rounds = [=](unsigned columns) { return (columns * height + workers - 1) / workers; };
    unsigned best = columns_after<Wide, Beside>(0, N);
    const unsigned waves = rounds(best);
    unsigned least = waves * (Wide + TILE_ENDS);
    for (unsigned fewer = 1; fewer <= 3 && fewer <= waves; ++fewer) {
        const unsigned wide = (waves - fewer) * workers / height;  // fill so many waves, and are less than all
        const unsigned all = wide + columns_after<Narrow, Beside>(wide * Wide * Beside, N), first = rounds(wide);
        const unsigned time = first * (Wide + TILE_ENDS) + (rounds(all) - first) * (Narrow + TILE_ENDS);
        if (time < least) {
            least = time;
            best = wide;
        }
    }
    return best;
}

// Their number. Where it takes long to compute and registers are scarce, it is in shared memory.
template <int Wide, int Narrow, int Beside>
struct WideColumns {
    unsigned value;  // where it is; without narrow ones, what it is

    // Before the block's threads meet: one of them computes it.
    __device__ __forceinline__ WideColumns(unsigned place, int N, unsigned height, unsigned workers) {
        if constexpr (Narrow > 0) {
            value = place;
            if (threadIdx.x == 0) store_shared_4(place, wide_columns<Wide, Narrow, Beside>(N, height, workers));
        } else {
            value = columns_after<Wide, Beside>(0, N);
        }
    }
    __device__ __forceinline__ unsigned operator()() const {
        if constexpr (Narrow > 0)
            return load_shared_4(value);
        else
            return value;
    }
};

// Says how many columns a tile has.
template <int COLS>
struct Width {
    static constexpr int value = COLS;
};
