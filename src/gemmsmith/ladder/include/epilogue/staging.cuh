// Outputs of a group of threads on their way through shared memory: boxes of 64 rows, written by stmatrix.
//
// A box is as wide as divides the tile: 64 columns of 16 bits where possible, else 32 or 16. Its 16-byte chunks are
// exchanged, as in tma.cuh, so that the eight rows which an stmatrix writes lie in different banks: for 64 columns the
// chunk number is XORed with row % 8, for 32 with row / 2 % 4, for 16 with row / 4 % 2.
#pragma once

#include "tile/warpgroup.cuh"

template <int Cols>
constexpr int STORE_BOX = 64 * CHUNK<Cols> * 2;  // bytes

// Four 8 x 8 matrices of 16-bit elements; lanes 8 i to 8 i + 7 give the rows of matrix i.
__device__ __forceinline__ void stmatrix_x4(unsigned address, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

// Where 16 bytes of a line lie in a box, counted from its beginning.
template <int Cols>
__device__ __forceinline__ unsigned staged_at(int line, int piece) {
    constexpr int WIDTH = CHUNK<Cols>, PIECES = WIDTH / 8;
    return line * WIDTH * 2 + (piece ^ line / (8 / PIECES) % PIECES) * 16;
}

// Finishes a chunk of a group's sums, which begins at (row, col) of the window, into the box at `buffer`.
template <int Cols, class Out>
__device__ __forceinline__ void stage_chunk(unsigned buffer, const Window<Out>& c, int row, int col,
                                            const float (&part)[CHUNK<Cols> / 2], const Finish<Out>& finish,
                                            bool whole) {
    static_assert(sizeof(Out) == 2, "16-bit outputs");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int line = warp * 16 + lane % 16;  // of the box, where this lane's 16 bytes of each stmatrix go
#pragma unroll
    for (int j = 0; j < CHUNK<Cols> / 8; j += 2) {
        unsigned packed[4];
#pragma unroll
        for (int p = 0; p < 4; ++p) {
            const int r = row + warp * 16 + p % 2 * 8 + lane / 4, piece = j + p / 2;
            const auto pair = finished_vector<2>(c, r, col + piece * 8 + lane % 4 * 2, &part[piece * 4 + p % 2 * 2],
                                                 finish, whole);
            packed[p] = reinterpret_cast<const unsigned&>(pair);
        }
        stmatrix_x4(buffer + staged_at<Cols>(line, j + lane / 16), packed);
    }
}
