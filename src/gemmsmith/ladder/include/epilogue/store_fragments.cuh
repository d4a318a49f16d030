// The way back from fragments: a warp's sums, finished and stored.
#pragma once

#include "epilogue/epilogue.cuh"
#include "tile/fragments.cuh"

// Stores the sums of a warp whose tile begins at (m0, n0) of the window: four neighbours of a row at a time, 16 rows
// after 16 rows. Where rows of A or columns of B were read INTERLEAVED, so are those of the sums.
template <bool INTERLEAVED_A, bool INTERLEAVED_B, class Out, class Sum, int Rows, int Cols>
__device__ __forceinline__ void store_tile(const Window<Out>& c, int m0, int n0, Sum (&sums)[Rows][Cols],
                                           const Finish<Out>& finish, bool whole) {
    for_each_row(sums, [&](int i, const Sum (&row)[Cols]) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int j = 0; j < Cols / 8; ++j) {
                Sum four[4];
                const int n = four_neighbours<INTERLEAVED_B>(four, &row[j * 8 + half * 2]);
                const int m = sum_row<INTERLEAVED_A>(half);
                store_finished<4, 4>(c, m0 + i * 16 + m, n0 + j * 16 + n, four, finish, whole);
            }
    });
}

// The same for sums of the transposed product, 16 columns of C after 16 columns, read INTERLEAVED: a lane
// holds columns 2g and 2g + 1 of rows 2q and 2q + 1. Two lanes swap, so that each has four neighbours in one row.
template <class Out, class Sum, int Rows, int Cols>
__device__ __forceinline__ void store_flipped_tile(const Window<Out>& c, int m0, int n0, Sum (&sums)[Rows][Cols],
                                                   const Finish<Out>& finish, bool whole) {
    const int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    const bool odd = g % 2;
    for_each_row(sums, [&](int i, const Sum (&row)[Cols]) {
#pragma unroll
        for (int j = 0; j < Cols / 4; ++j) {
            Sum four[4];
#pragma unroll
            for (int col = 0; col < 2; ++col) {
                const Sum upper = row[j * 4 + col * 2], lower = row[j * 4 + col * 2 + 1];
                const Sum theirs = __shfl_xor_sync(~0u, odd ? upper : lower, 4);
                four[col] = odd ? theirs : upper;
                four[2 + col] = odd ? lower : theirs;
            }
            store_finished<4, 4>(c, m0 + j * 8 + 2 * q + odd, n0 + i * 16 + g / 2 * 4, four, finish, whole);
        }
    });
}
