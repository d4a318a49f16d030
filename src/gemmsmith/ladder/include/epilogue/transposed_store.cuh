// Stores a warpgroup's accumulators of the transposed product: their columns are rows of C, their rows columns of C.
//
// Thread t (warp w, lane l) holds, for each 64 columns of C and each j (8 rows of C), two adjacent rows of the columns
// 16 w + l / 4 and 8 further. stmatrix writes 8 x 8 outputs of 16 bits transposed, and plain stores write 32-bit ones, so
// that a row of a box is 128 bytes of C, swizzled as in tma.cuh, at any number of rows.
#pragma once

#include "epilogue/epilogue.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/shared_memory.cuh"
#include "tile/warpgroup.cuh"

constexpr int TRANSPOSED_BOX = 8 * 64 * sizeof(OUT);  // bytes of 8 rows of 64 outputs

// The boxes of 8 rows that one TMA store takes, if Boxes boxes are staged of a tile of 8 * All rows: half of them, so
// that some are written while others are read, where a tile is a multiple of that.
template <int Boxes, int All>
constexpr int BOXES_OF_A_STORE = Boxes % 2 == 0 && All % (Boxes / 2 > 0 ? Boxes / 2 : 1) == 0 ? Boxes / 2 : Boxes;

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

// Writes 8 rows of 64 outputs to box number `box` of those at `buffer`, `boxes` in all. 32-bit outputs are in two halves
// of 32 columns: first all boxes of the left half, then those of the right one.
template <class Out>
__device__ __forceinline__ void stage_transposed(unsigned buffer, int box, int boxes, const Window<Out>& c, int j,
                                                 int col, const float (&four)[4], const Epilogue<Out>& epilogue,
                                                 bool whole) {
    Vec<Out, 4> out;
#pragma unroll
    for (int e = 0; e < 4; ++e)
        out.at[e] = apply_epilogue_vector<1>(c, transposed_row(j, e), transposed_col(col, e), &four[e], epilogue, whole)
                        .at[0];
    if constexpr (sizeof(Out) == 2) {
        // Lanes 0 to 7 address the rows of the first 8 columns, lanes 8 to 15 those of the next.
        const int row = threadIdx.x % 8, chunk = threadIdx.x / 32 % 4 * 2 + threadIdx.x / 8 % 2;
        const auto& pairs = reinterpret_cast<const unsigned (&)[2]>(out);
        stmatrix_x2_transposed(buffer + (box * 8 + row) * BOX_ROW + (chunk ^ row) * 16, pairs[0], pairs[1]);
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int row = transposed_row(0, e), at = transposed_col(0, e), chunk = at % 32 / 4;
            store_shared_4(buffer + ((at / 32 * boxes + box) * 8 + row) * BOX_ROW + (chunk ^ row) * 16 + at % 4 * 4,
                           __float_as_uint(out.at[e]));
        }
    }
}

// Stores the accumulators by TMA through the warpgroup's own Boxes boxes of staging memory (if Boxes is 0, and where the
// old values of C are added: from registers). The window's origin is the tile's, (top, left) of C number z; this
// warpgroup's columns begin `col` further. The last stores are still in flight on return.
template <int Boxes, int Cols, int MTiles, class Out>
__device__ __forceinline__ void store_transposed(const TensorMap& map, unsigned staging, int barrier,
                                                 const Window<Out>& c, int col, int top, int left, int z,
                                                 float (&acc)[MTiles][Cols / 2], const Epilogue<Out>& of_tile,
                                                 bool whole) {
    constexpr int TOGETHER = Boxes == 0 ? 1 : BOXES_OF_A_STORE<Boxes, Cols / 8>, BUFFERS = Boxes / TOGETHER;
    // Where a tile takes every buffer equally often, its first store takes the buffer of the oldest one in flight.
    constexpr int IN_FLIGHT = Boxes == 0 || MTiles * Cols / 8 % Boxes > 0 ? 0 : BUFFERS - 1;
    const bool leader = threadIdx.x % WARPGROUP_THREADS == 0;
    with_or_without_c(of_tile, [&](const Epilogue<Out>& epilogue, auto reads_c) {
#pragma unroll
        for (int i = 0; i < MTiles; ++i)
            for_each_row(reinterpret_cast<float (&)[Cols / 8][4]>(acc[i]), [&](int j, const float (&four)[4]) {
                if constexpr (Boxes == 0 || decltype(reads_c)::value) {
                    store_transposed_four(c, j, col + i * 64, four, epilogue, whole);
                } else {
                    const int box = j % TOGETHER, store = i * (Cols / 8 / TOGETHER) + j / TOGETHER;
                    const unsigned buffer = staging + store % BUFFERS * (TOGETHER * TRANSPOSED_BOX);
                    if (box == 0) {
                        if (leader && store == 0) tma_store_wait_read<IN_FLIGHT>();  // those of the tile before
                        if (leader && store > 0) tma_store_wait_read<BUFFERS - 1>();
                        named_barrier_sync(barrier, WARPGROUP_THREADS);
                    }
                    stage_transposed(buffer, box, TOGETHER, c, j, col + i * 64, four, epilogue, whole);
                    if (box == TOGETHER - 1) {
                        fence_proxy_async();
                        named_barrier_sync(barrier, WARPGROUP_THREADS);
                        if (leader) {
                            constexpr int WIDTH = BOX_ROW / sizeof(Out);
#pragma unroll
                            for (int half = 0; half < 64 / WIDTH; ++half)
                                tma_store(map, buffer + half * (TOGETHER * 8 * BOX_ROW),
                                          left + col + i * 64 + half * WIDTH, top + (j + 1 - TOGETHER) * 8, z);
                            tma_store_commit();
                        }
                    }
                }
            });
    });
}
