// The way back to a C whose rows start anywhere: staged outputs leave in pieces of 16 bytes.
//
// From registers they would leave one by one, eight rows with every instruction, and a sector of memory would be
// written four times. Here a warp writes along the rows, and a piece, which starts on 16 bytes of C, lies across two
// pieces of the box: both are read and shifted together. What is left at the ends of a line goes element by element.
#pragma once

#include "ptx/shared_loads.cuh"
#include "tile/shifted_chunk.cuh"
#include "epilogue/staging.cuh"

// In one instruction: of a pointer to 2-byte elements the compiler would make four.
__device__ __forceinline__ void store_piece(void* target, const uint4& x) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 ::"l"(__cvta_generic_to_global(target)), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}

// A line of C that is staged in boxes side by side: where it begins, how many of its elements there are, and how many
// lie between the last 16-byte boundary and its beginning.
template <int Cols, class Out>
struct StagedLine {
    Out* target;
    int valid, skew, line;
    unsigned staging;

    __device__ __forceinline__ StagedLine(const Window<Out>& c, int row, int col, unsigned staging_, int line_,
                                          int span) {
        target = c.at(row + line_, col);
        valid = row + line_ < c.rows ? min(c.cols - col, span) : 0;
        skew = reinterpret_cast<size_t>(target) / sizeof(Out) % 8;
        line = line_;
        staging = staging_;
    }
    __device__ __forceinline__ unsigned address(int piece) const {
        constexpr int PIECES = CHUNK<Cols> / 8;
        return staging + piece / PIECES * STORE_BOX<Cols> + staged_at<Cols>(line, piece % PIECES);
    }
};

// Writes the 16 lines of this warp, SPAN columns from (row, col) of the window on. What is written next is read before
// the first of it leaves, AT_ONCE times 32 lanes: else each would wait for the one before.
template <int Cols, int SPAN, class Out>
__device__ __forceinline__ void write_in_pieces(const Window<Out>& c, int row, int col, unsigned staging) {
    using Line = StagedLine<Cols, Out>;
    constexpr int PIECES = SPAN / 8, AT_ONCE = PIECES % 8 == 0 ? 4 : PIECES % 4 == 0 ? 2 : 1;
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 % 4 * 16;
    for (int begin = lane; begin < 16 * PIECES; begin += AT_ONCE * 32) {  // the pieces that are whole
        uint4 pieces[AT_ONCE];
        Out* targets[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const int number = begin + i * 32;
            const Line of(c, row, col, staging, first + number / PIECES, SPAN);
            const int from = number % PIECES * 8 - of.skew, own = max(from, 0);
            const uint4 one = load_shared_16(of.address(own / 8));
            const uint4 next = load_shared_16(of.address(min(own / 8 + 1, PIECES - 1)));
            pieces[i] = shifted(one, next, own % 8);
            targets[i] = from >= 0 && from + 8 <= of.valid ? of.target + from : nullptr;
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (targets[i]) store_piece(targets[i], pieces[i]);
    }
    constexpr int ENDS = 16;  // up to seven elements at both ends of a line, a lane for each
    for (int begin = lane; begin < 16 * ENDS; begin += 4 * 32) {
        unsigned short elements[4];
        Out* targets[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int number = begin + i * 32, lane_of_line = number % ENDS;
            const Line of(c, row, col, staging, first + number / ENDS, SPAN);
            const int end = (of.valid + of.skew) / 8 * 8 - of.skew;  // of the whole pieces; none where it is below 0
            const int at = lane_of_line % 8 + (lane_of_line < 8 ? 0 : end);
            const bool here = lane_of_line < 8 ? of.skew > 0 && at < 8 - of.skew : end >= 0;
            targets[i] = here && at < of.valid ? of.target + at : nullptr;
            elements[i] = targets[i] ? load_shared_2(of.address(at / 8) + at % 8 * 2) : 0;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (targets[i]) *reinterpret_cast<unsigned short*>(targets[i]) = elements[i];
    }
}

// Stores the sums of a group through its own BUFFERS boxes at `staging`. A warp reads what it wrote itself, so that it
// waits for nobody.
template <int BUFFERS, int Cols, int Tiles, class Out>
__device__ __forceinline__ void store_sums_in_pieces(unsigned staging, const Window<Out>& c, int row,
                                                     float (&sums)[Tiles][Cols / 2], const Finish<Out>& finish,
                                                     bool whole) {
    constexpr int WIDTH = CHUNK<Cols>;
    static_assert(Cols % (WIDTH * BUFFERS) == 0, "rounds of BUFFERS boxes");
#pragma unroll
    for (int i = 0; i < Tiles; ++i)
        for_each_chunk<Cols>(sums[i], [&](int chunk, const float (&part)[WIDTH / 2]) {
            stage_chunk<Cols>(staging + chunk % BUFFERS * STORE_BOX<Cols>, c, row + i * 64, chunk * WIDTH, part, finish,
                              whole);
            if (chunk % BUFFERS == BUFFERS - 1) {
                __syncwarp();
                write_in_pieces<Cols, BUFFERS * WIDTH>(c, row + i * 64, (chunk - BUFFERS + 1) * WIDTH, staging);
                __syncwarp();
            }
        });
}
