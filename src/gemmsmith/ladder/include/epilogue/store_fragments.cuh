// Stores a warp's accumulator fragments (mma.sync) to C, with the epilogue applied.
#pragma once

#include "epilogue/epilogue.cuh"
#include "tile/fragments.cuh"

// Stores the accumulators of a warp whose tile begins at (m0, n0) of the window: four consecutive columns at a time, 16
// rows after 16 rows. If rows of A or columns of B were read interleaved, those of the accumulators are as well.
template <bool INTERLEAVED_A, bool INTERLEAVED_B, class Out, class Acc, int Rows, int Cols>
__device__ __forceinline__ void store_tile(const Window<Out>& c, int m0, int n0, Acc (&acc)[Rows][Cols],
                                           const Epilogue<Out>& epilogue, bool whole) {
    for_each_row(acc, [&](int i, const Acc (&row)[Cols]) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int j = 0; j < Cols / 8; ++j) {
                Acc four[4];
                const int n = four_consecutive<INTERLEAVED_B>(four, &row[j * 8 + half * 2]);
                const int m = accumulator_row<INTERLEAVED_A>(half);
                store_with_epilogue<4, 4>(c, m0 + i * 16 + m, n0 + j * 16 + n, four, epilogue, whole);
            }
    });
}

// The same for the transposed product, 16 columns of C after 16 columns, read interleaved: a lane holds columns 2g and
// 2g + 1 of rows 2q and 2q + 1. Two lanes exchange, so that each has four consecutive columns of one row.
template <class Out, class Acc, int Rows, int Cols>
__device__ __forceinline__ void store_transposed_tile(const Window<Out>& c, int m0, int n0, Acc (&acc)[Rows][Cols],
                                                   const Epilogue<Out>& epilogue, bool whole) {
    const int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    const bool odd = g % 2;
    for_each_row(acc, [&](int i, const Acc (&row)[Cols]) {
#pragma unroll
        for (int j = 0; j < Cols / 4; ++j) {
            Acc four[4];
#pragma unroll
            for (int col = 0; col < 2; ++col) {
                const Acc upper = row[j * 4 + col * 2], lower = row[j * 4 + col * 2 + 1];
                const Acc received = __shfl_xor_sync(~0u, odd ? upper : lower, 4);
                four[col] = odd ? received : upper;
                four[2 + col] = odd ? lower : received;
            }
            store_with_epilogue<4, 4>(c, m0 + j * 8 + 2 * q + odd, n0 + i * 16 + g / 2 * 4, four, epilogue, whole);
        }
    });
}
