// Stores a warpgroup's accumulators to C from registers, two adjacent elements at a time.
#pragma once

#include "epilogue/epilogue.cuh"
#include "tile/warpgroup.cuh"

// Columns of accumulators that are stored together: the width of a box of 16-bit outputs, 64 where possible.
template <int Cols>
constexpr int BOX_COLS = Cols % 64 == 0 ? 64 : Cols % 32 == 0 ? 32 : 16;

// Calls `store` with a thread's accumulators of 64 rows, box by box of Width columns.
template <int Cols, int Width = BOX_COLS<Cols>, class Store>
__device__ __forceinline__ void for_each_box(float (&acc)[Cols / 2], const Store& store) {
    for_each_row(reinterpret_cast<float (&)[Cols / Width][Width / 2]>(acc), store);
}

template <int Cols, int MTiles, class Out>
__device__ __forceinline__ void store_accumulators_direct(const Window<Out>& c, int row,
                                                          float (&acc)[MTiles][Cols / 2],
                                                          const Epilogue<Out>& epilogue, bool whole) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int i = 0; i < MTiles; ++i)
        for_each_box<Cols>(acc[i], [&](int box, const float (&box_acc)[BOX_COLS<Cols> / 2]) {
#pragma unroll
            for (int j = 0; j < BOX_COLS<Cols> / 8; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half)  // the second half is 8 rows below the first
                    store_with_epilogue<2, 2>(c, row + i * 64 + warp * 16 + half * 8 + lane / 4,
                                              box * BOX_COLS<Cols> + j * 8 + lane % 4 * 2, &box_acc[j * 4 + half * 2],
                                              epilogue, whole);
        });
}

// Stores four accumulators of a thread, of 8 columns number j and the 64 rows at `row`.
template <class Out>
__device__ __forceinline__ void store_four(const Window<Out>& c, int row, int j, const float (&four)[4],
                                           const Epilogue<Out>& epilogue, bool whole) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half)  // the second half is 8 rows below the first
        store_with_epilogue<2, 2>(c, row + warp * 16 + half * 8 + lane / 4, j * 8 + lane % 4 * 2, &four[half * 2],
                                  epilogue, whole);
}
