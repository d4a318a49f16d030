// Which tile of C a thread block computes, in an order that suits the second-level cache.
//
// Blocks that run at the same time should need the same rows of A and columns of B. Numbered along the rows of C, a
// hundred blocks read one row of tiles of A and a hundred columns of B; numbered down strips of Group tiles, some ten
// of each:
//
//     0  4   8          Group = 4: strips of four rows of tiles,
//     1  5   9          numbered column by column within
//     2  6  10
//     3  7  11
//    12 14  16          the last strip may be lower
//    13 15  17
#pragma once

#include "schedule/tile_order.cuh"

struct Place {
    unsigned down, across;  // in tiles
};

// Of number `index` in a matrix of down x across tiles.
template <int Group>
__device__ __forceinline__ Place grouped_place(unsigned index, unsigned down, unsigned across) {
    const unsigned strip = Group * across;
    const unsigned top = index / strip * Group;
    const unsigned height = min(down - top, static_cast<unsigned>(Group));
    const unsigned place = index % strip;
    return {top + place % height, place / height};
}

// Of this block, where every tile has one.
template <int Rows, int Cols, int Group>
__device__ __forceinline__ Tile grouped_tile(int M, int N) {
    // Not (M + Rows - 1) / Rows, which overflows near 2^31.
    const Place place = grouped_place<Group>(blockIdx.x, (M - 1) / Rows + 1, (N - 1) / Cols + 1);
    return {static_cast<int>(place.down * Rows), static_cast<int>(place.across * Cols)};
}
