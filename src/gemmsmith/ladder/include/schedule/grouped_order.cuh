// Which tile of C a thread block computes: grouped order, for L2 locality.
//
// Blocks that run at the same time should share rows of A and columns of B. In row-major order a hundred blocks read
// one row of tiles of A and a hundred columns of tiles of B. Numbered down strips of Group rows of tiles, they read
// about ten of each:
//
//     0  4   8          Group = 4: strips of four rows of tiles,
//     1  5   9          numbered column by column
//     2  6  10
//     3  7  11
//    12 14  16          the last strip may have fewer rows
//    13 15  17
#pragma once

#include "schedule/tile_order.cuh"

struct TileCoord {
    unsigned m, n;  // in tiles
};

// The coordinates of tile number `index` in a matrix of tiles_m x tiles_n tiles.
template <int Group>
__device__ __forceinline__ TileCoord grouped_tile_coord(unsigned index, unsigned tiles_m, unsigned tiles_n) {
    const unsigned strip = Group * tiles_n;
    const unsigned top = index / strip * Group;
    const unsigned height = min(tiles_m - top, static_cast<unsigned>(Group));
    const unsigned within = index % strip;
    return {top + within % height, within / height};
}

// The tile of this block, if every tile has its own block.
template <int Rows, int Cols, int Group>
__device__ __forceinline__ Tile grouped_tile(int M, int N) {
    // Not (M + Rows - 1) / Rows, which overflows near 2^31.
    const TileCoord coord = grouped_tile_coord<Group>(blockIdx.x, (M - 1) / Rows + 1, (N - 1) / Cols + 1);
    return {static_cast<int>(coord.m * Rows), static_cast<int>(coord.n * Cols)};
}
