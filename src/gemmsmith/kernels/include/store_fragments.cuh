// The way back from fragments: a warp's sums, finished and stored.
#pragma once

#include "finish.cuh"
#include "fragments.cuh"

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
