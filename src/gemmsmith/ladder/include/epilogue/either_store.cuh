// Storing sums of the product (store.cuh) or, with SWAP, of its transpose (transposed_store.cuh).
#pragma once

#include "epilogue/store.cuh"
#include "epilogue/transposed_store.cuh"

// Stores the sums of warpgroup 1, 2 ... of the tile at (row, col), from the tile's 64 rows number m_tile on.
template <int Cols, int MTiles, class Out>
__device__ __forceinline__ void store_either(const TensorMap& map, unsigned staging, int warpgroup, const Window<Out>& c,
                                             int m_tile, int row, int col, int z, float (&sums)[MTiles][Cols / 2],
                                             const Epilogue<Out>& epilogue, bool whole) {
    if constexpr (SWAP)
        store_transposed<BOXES, Cols>(map, staging + (warpgroup - 1) * BOXES * TRANSPOSED_BOX, warpgroup, c, m_tile * 64,
                                      col, row, z, sums, epilogue, whole);
    else
        store_accumulators<Cols>(map, staging, warpgroup, c, m_tile * 64, row, col, z, sums, epilogue, whole);
}

// Stores vector number i of a thread's sums from registers; its warpgroup's first 64 rows are number `first`.
template <int Cols, class Out>
__device__ __forceinline__ void store_either_four(const Window<Out>& c, int first, int i, const float (&four)[4],
                                                  const Epilogue<Out>& epilogue, bool whole) {
    const int j = i % (Cols / 8), offset = (first + i / (Cols / 8)) * 64;
    if constexpr (SWAP)
        store_transposed_four(c, j, offset, four, epilogue, whole);
    else
        store_four(c, offset, j, four, epilogue, whole);
}
