// Stores a warpgroup's accumulators of the transposed product: their columns are rows of C, their rows columns of C.
//
// Thread t (warp w, lane l) holds, for each 64 columns of C and each j (8 rows of C), two adjacent rows of the columns
// 16 w + l / 4 and 8 further. stmatrix writes 8 x 8 outputs transposed, so that a row of a box is 64 columns of C: 128
// bytes, swizzled as in tma.cuh, at any number of rows.
#pragma once

#include "epilogue/epilogue.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/named_barrier.cuh"
#include "tile/warpgroup.cuh"

constexpr int TRANSPOSED_BOX = 8 * BOX_ROW;  // bytes of 8 rows of 64 outputs

// The row and the column of C, from the window's origin, of a thread's accumulator `e` of the four of 8 rows number j.
__device__ __forceinline__ int transposed_row(int j, int e) { return j * 8 + threadIdx.x % 4 * 2 + e % 2; }
__device__ __forceinline__ int transposed_col(int col, int e) {
    return col + threadIdx.x / 32 % 4 * 16 + e / 2 * 8 + threadIdx.x % 32 / 4;
}

// Stores four accumulators from registers: eight adjacent outputs of a row of C at a time.
template <class Out>
__device__ __forceinline__ void store_transposed_four(const Window<Out>& c, int j, int col, const float (&four)[4],
                                                      const Epilogue<Out>& epilogue, bool whole) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
        store_with_epilogue<1, 1>(c, transposed_row(j, e), transposed_col(col, e), &four[e], epilogue, whole);
}

// Writes 8 rows of 64 outputs to the box at `buffer`.
template <class Out>
__device__ __forceinline__ void stage_transposed(unsigned buffer, const Window<Out>& c, int j, int col,
                                                 const float (&four)[4], const Epilogue<Out>& epilogue, bool whole) {
    static_assert(sizeof(Out) == 2, "16-bit outputs");
    Vec<Out, 2> pairs[2];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        pairs[e / 2].at[e % 2] = apply_epilogue_vector<1>(c, transposed_row(j, e), transposed_col(col, e), &four[e],
                                                          epilogue, whole).at[0];
    // Lanes 0 to 7 address the rows of the first 8 columns, lanes 8 to 15 those of the next.
    const int row = threadIdx.x % 8, chunk = threadIdx.x / 32 % 4 * 2 + threadIdx.x / 8 % 2;
    stmatrix_x2_transposed(buffer + row * BOX_ROW + (chunk ^ row) * 16, reinterpret_cast<const unsigned&>(pairs[0]),
                           reinterpret_cast<const unsigned&>(pairs[1]));
}

// Stores the accumulators by TMA, AtOnce boxes of 8 rows at a time through the warpgroup's own staging memory (if
// AtOnce is 0, and where the old values of C are added: from registers). The window's origin is the tile's, (top, left)
// of C number z; this warpgroup's columns begin `col` further. The last stores are still in flight on return.
template <int AtOnce, int Cols, int MTiles, class Out>
__device__ __forceinline__ void store_transposed(const TensorMap& map, unsigned staging, int barrier,
                                                 const Window<Out>& c, int col, int top, int left, int z,
                                                 float (&acc)[MTiles][Cols / 2], const Epilogue<Out>& of_tile,
                                                 bool whole) {
    const bool leader = threadIdx.x % WARPGROUP_THREADS == 0;
    with_or_without_c(of_tile, [&](const Epilogue<Out>& epilogue, auto reads_c) {
#pragma unroll
        for (int i = 0; i < MTiles; ++i)
            for_each_row(reinterpret_cast<float (&)[Cols / 8][4]>(acc[i]), [&](int j, const float (&four)[4]) {
                if constexpr (AtOnce == 0 || decltype(reads_c)::value) {
                    store_transposed_four(c, j, col + i * 64, four, epilogue, whole);
                } else {
                    if (j % AtOnce == 0) {
                        if (leader) tma_store_wait_read<0>();
                        named_barrier_sync(barrier, WARPGROUP_THREADS);
                    }
                    stage_transposed(staging + j % AtOnce * TRANSPOSED_BOX, c, j, col + i * 64, four, epilogue, whole);
                    if (j % AtOnce == AtOnce - 1) {
                        fence_proxy_async();
                        named_barrier_sync(barrier, WARPGROUP_THREADS);
                        if (leader) {
                            tma_store(map, staging, left + col + i * 64, top + (j + 1 - AtOnce) * 8, z);
                            tma_store_commit();
                        }
                    }
                }
            });
    });
}
