// Which tile of C a thread block computes: row-major order.
#pragma once

struct Tile {
    int row, col;  // of its upper left element
};

// Tiles of Rows x Cols, numbered along the rows of C by blockIdx.x alone: gridDim.y is limited to 65,535, which a tall
// C of up to 2^31 rows would exceed.
template <int Rows, int Cols>
__device__ __forceinline__ Tile block_tile(int N) {
    const unsigned across = (N - 1) / Cols + 1;  // not (N + Cols - 1) / Cols, which overflows near 2^31
    return {static_cast<int>(blockIdx.x / across * Rows), static_cast<int>(blockIdx.x % across * Cols)};
}
