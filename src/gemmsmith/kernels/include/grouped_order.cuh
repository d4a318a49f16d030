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

#include "tile_order.cuh"

template <int Rows, int Cols, int Group>
__device__ __forceinline__ Tile grouped_tile(int M, int N) {
    const unsigned down = (M - 1) / Rows + 1;  // not (M + Rows - 1) / Rows, which overflows near 2^31
    const unsigned strip = Group * ((N - 1) / Cols + 1);
    const unsigned top = blockIdx.x / strip * Group;
    const unsigned height = min(down - top, static_cast<unsigned>(Group));
    const unsigned place = blockIdx.x % strip;
    return {static_cast<int>((top + place % height) * Rows), static_cast<int>(place / height * Cols)};
}
