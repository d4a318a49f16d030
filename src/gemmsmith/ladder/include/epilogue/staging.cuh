// Staging: a warpgroup's outputs are written to shared memory by stmatrix, in boxes of 64 rows, before they go to C.
//
// A box is as wide as divides the tile: 64 columns of 16-bit outputs where possible, else 32 or 16. Its 16-byte chunks
// are swizzled as in tma.cuh, so that the eight rows that one stmatrix writes are in different banks. The chunk number
// is XORed with row % 8 for 64 columns, row / 2 % 4 for 32, row / 4 % 2 for 16.
#pragma once

#include "epilogue/direct_store.cuh"
#include "ptx/ldmatrix.cuh"

template <int Cols>
constexpr int STORE_BOX = 64 * BOX_COLS<Cols> * 2;  // bytes

// The byte offset of a 16-byte chunk in a box.
template <int Cols>
__device__ __forceinline__ unsigned staged_at(int row, int chunk) {
    constexpr int WIDTH = BOX_COLS<Cols>, CHUNKS = WIDTH / 8;
    return row * WIDTH * 2 + (chunk ^ row / (8 / CHUNKS) % CHUNKS) * 16;
}

// Applies the epilogue to one box of a warpgroup's accumulators, which begins at (row, col) of the window, and writes
// the outputs to the box at shared address `buffer`.
template <int Cols, class Out>
__device__ __forceinline__ void stage_box(unsigned buffer, const Window<Out>& c, int row, int col,
                                          const float (&box_acc)[BOX_COLS<Cols> / 2], const Epilogue<Out>& epilogue,
                                          bool whole) {
    static_assert(sizeof(Out) == 2, "16-bit outputs");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int box_row = warp * 16 + lane % 16;  // the row of the box that this lane addresses in each stmatrix
#pragma unroll
    for (int j = 0; j < BOX_COLS<Cols> / 8; j += 2) {
        unsigned packed[4];
#pragma unroll
        for (int p = 0; p < 4; ++p) {
            const int r = row + warp * 16 + p % 2 * 8 + lane / 4, chunk = j + p / 2;
            const auto pair = apply_epilogue_vector<2>(c, r, col + chunk * 8 + lane % 4 * 2,
                                                       &box_acc[chunk * 4 + p % 2 * 2], epilogue, whole);
            packed[p] = reinterpret_cast<const unsigned&>(pair);
        }
        stmatrix_x4(buffer + staged_at<Cols>(box_row, j + lane / 16), packed);
    }
}
