// Staging: a warpgroup's outputs are written to shared memory, in boxes of 64 rows, before they go to C.
//
// A box is as wide as divides the tile: rows of 128 bytes where possible, else of 64 or 32. Its 16-byte chunks are
// swizzled as in tma.cuh, so that the eight rows that one stmatrix writes are in different banks. The chunk number is
// XORed with row % 8 for rows of 128 bytes, row / 2 % 4 for 64, row / 4 % 2 for 32.
#pragma once

#include "epilogue/direct_store.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/shared_memory.cuh"

// Columns of a box, its bytes, and the byte offset of a 16-byte chunk in it.
template <int Cols>
constexpr int STAGED_COLS = sizeof(OUT) == 2 ? BOX_COLS<Cols> : Cols % 32 == 0 ? 32 : 16;
template <int Cols>
constexpr int STORE_BOX = 64 * STAGED_COLS<Cols> * sizeof(OUT);
template <int Cols>
__device__ __forceinline__ unsigned staged_at(int row, int chunk) {
    constexpr int ROW = STAGED_COLS<Cols> * sizeof(OUT), CHUNKS = ROW / 16;
    return row * ROW + (chunk ^ row / (8 / CHUNKS) % CHUNKS) * 16;
}

// 32-bit outputs of one box, two at a time. A half-warp writes four rows; if all of them wrote the same columns, two rows
// at a time would be in the same banks. So some rows write the columns of j first, others those of j ^ OTHER.
template <int Cols, class Out>
__device__ __forceinline__ void stage_box_32(unsigned buffer, const Window<Out>& c, int row, int col,
                                             const float (&box_acc)[STAGED_COLS<Cols> / 2],
                                             const Epilogue<Out>& epilogue, bool whole) {
    constexpr int OTHER = STAGED_COLS<Cols> / 16;  // 2 or 1
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const bool others_first = lane / (OTHER == 2 ? 4 : 8) % 2;
#pragma unroll
    for (int j = 0; j < STAGED_COLS<Cols> / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // the second half is 8 rows below the first
            const int box_row = warp * 16 + half * 8 + lane / 4, columns = others_first ? j ^ OTHER : j;
            const int own = j * 4 + half * 2, other = (j ^ OTHER) * 4 + half * 2;
            const float pair[2] = {others_first ? box_acc[other] : box_acc[own],
                                   others_first ? box_acc[other + 1] : box_acc[own + 1]};
            const auto out = apply_epilogue_vector<2>(c, row + box_row, col + columns * 8 + lane % 4 * 2, pair,
                                                      epilogue, whole);
            store_shared_8(buffer + staged_at<Cols>(box_row, columns * 2 + lane % 4 / 2) + lane % 2 * 8, out.at[0],
                           out.at[1]);
        }
}

// Applies the epilogue to one box of a warpgroup's accumulators, which begins at (row, col) of the window, and writes
// the outputs to the box at shared address `buffer`.
template <int Cols, class Out>
__device__ __forceinline__ void stage_box(unsigned buffer, const Window<Out>& c, int row, int col,
                                          const float (&box_acc)[STAGED_COLS<Cols> / 2], const Epilogue<Out>& epilogue,
                                          bool whole) {
    if constexpr (sizeof(Out) == 4) {
        stage_box_32<Cols>(buffer, c, row, col, box_acc, epilogue, whole);
        return;
    } else {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        const int box_row = warp * 16 + lane % 16;  // the row of the box that this lane addresses in each stmatrix
#pragma unroll
        for (int j = 0; j < STAGED_COLS<Cols> / 8; j += 2) {
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
}
