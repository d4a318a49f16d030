// Staged outputs stored by threads to a C whose rows start at any address, in chunks of 16 bytes.
//
// Stored from registers, outputs would leave one by one, eight rows per instruction, and each sector of memory would be
// written four times. Here a warp writes along the rows. A chunk that is aligned to 16 bytes in C straddles two chunks
// of the staged box: both are read and shifted together. The elements before the first and after the last whole chunk
// of a row are stored one by one.
#pragma once

#include "epilogue/staging.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/shared_memory.cuh"
#include "tile/shifted_chunk.cuh"

// A row of C that is staged in adjacent boxes: its address in C, how many of its elements are inside C, and how many
// elements its start is past a 16-byte boundary.
template <int Cols, class Out>
struct StagedRow {
    Out* target;
    int valid, skew, box_row;
    unsigned staging;

    __device__ __forceinline__ StagedRow(const Window<Out>& c, int row, int col, unsigned staging_, int box_row_,
                                         int span) {
        target = c.at(row + box_row_, col);
        valid = row + box_row_ < c.rows ? min(c.cols - col, span) : 0;
        skew = reinterpret_cast<size_t>(target) / sizeof(Out) % 8;
        box_row = box_row_;
        staging = staging_;
    }
    // The shared address of a 16-byte chunk.
    __device__ __forceinline__ unsigned address(int chunk) const {
        constexpr int CHUNKS = BOX_COLS<Cols> / 8;
        return staging + chunk / CHUNKS * STORE_BOX<Cols> + staged_at<Cols>(box_row, chunk % CHUNKS);
    }
};

// Writes this warp's 16 rows, SPAN columns starting at (row, col) of the window. IN_FLIGHT chunks per lane are read
// before the first of them is written, so that their latencies overlap.
template <int Cols, int SPAN, class Out>
__device__ __forceinline__ void write_rows(const Window<Out>& c, int row, int col, unsigned staging) {
    using Row = StagedRow<Cols, Out>;
    constexpr int CHUNKS = SPAN / 8, IN_FLIGHT = CHUNKS % 8 == 0 ? 4 : CHUNKS % 4 == 0 ? 2 : 1;
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 % 4 * 16;
    for (int begin = lane; begin < 16 * CHUNKS; begin += IN_FLIGHT * 32) {  // whole chunks
        uint4 chunks[IN_FLIGHT];
        Out* targets[IN_FLIGHT];
#pragma unroll
        for (int i = 0; i < IN_FLIGHT; ++i) {
            const int number = begin + i * 32;
            const Row staged(c, row, col, staging, first + number / CHUNKS, SPAN);
            const int from = number % CHUNKS * 8 - staged.skew, own = max(from, 0);
            const uint4 one = load_shared_16(staged.address(own / 8));
            const uint4 next = load_shared_16(staged.address(min(own / 8 + 1, CHUNKS - 1)));
            chunks[i] = shifted(one, next, own % 8);
            targets[i] = from >= 0 && from + 8 <= staged.valid ? staged.target + from : nullptr;
        }
#pragma unroll
        for (int i = 0; i < IN_FLIGHT; ++i)
            if (targets[i]) store_global_16(targets[i], chunks[i]);
    }
    constexpr int ENDS = 16;  // up to seven elements at each end of a row, one lane for each
    for (int begin = lane; begin < 16 * ENDS; begin += 4 * 32) {
        unsigned short elements[4];
        Out* targets[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int number = begin + i * 32, lane_of_row = number % ENDS;
            const Row staged(c, row, col, staging, first + number / ENDS, SPAN);
            const int end = (staged.valid + staged.skew) / 8 * 8 - staged.skew;  // of whole chunks; none if negative
            const int at = lane_of_row % 8 + (lane_of_row < 8 ? 0 : end);
            const bool here = lane_of_row < 8 ? staged.skew > 0 && at < 8 - staged.skew : end >= 0;
            targets[i] = here && at < staged.valid ? staged.target + at : nullptr;
            elements[i] = targets[i] ? load_shared_2(staged.address(at / 8) + at % 8 * 2) : 0;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (targets[i]) *reinterpret_cast<unsigned short*>(targets[i]) = elements[i];
    }
}

// Stores the accumulators of a warpgroup through its own BUFFERS boxes at `staging`. A warp reads only what it wrote
// itself, so no barrier between warps is needed.
template <int BUFFERS, int Cols, int MTiles, class Out>
__device__ __forceinline__ void store_accumulators_by_threads(unsigned staging, const Window<Out>& c, int row,
                                                              float (&acc)[MTiles][Cols / 2],
                                                              const Epilogue<Out>& epilogue, bool whole) {
    constexpr int WIDTH = BOX_COLS<Cols>;
    static_assert(Cols % (WIDTH * BUFFERS) == 0, "rounds of BUFFERS boxes");
#pragma unroll
    for (int i = 0; i < MTiles; ++i)
        for_each_box<Cols>(acc[i], [&](int box, const float (&box_acc)[WIDTH / 2]) {
            stage_box<Cols>(staging + box % BUFFERS * STORE_BOX<Cols>, c, row + i * 64, box * WIDTH, box_acc, epilogue,
                            whole);
            if (box % BUFFERS == BUFFERS - 1) {
                __syncwarp();
                write_rows<Cols, BUFFERS * WIDTH>(c, row + i * 64, (box - BUFFERS + 1) * WIDTH, staging);
                __syncwarp();
            }
        });
}
