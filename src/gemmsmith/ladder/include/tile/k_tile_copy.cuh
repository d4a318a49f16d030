// Copies k-tiles of A and B into shared memory in one layout, whatever the layout in global memory: for each k, a line
// with all rows of A or all columns of B. K-major operands are transposed on the way, by copies of 4 bytes, which work
// at any alignment.
//
//     Direct      lines of one k, 16 bytes at a time; 4 bytes where lines do not start on 16 bytes
//     Transposed  lines along k, 4 bytes at a time: eight consecutive k (a 32-byte sector) go to eight lines of shared
//                 memory. Those lines are padded by four banks, so that 8 k by 4 rows are in 32 different banks
//
// A thread's lines are a constant distance apart in shared memory: it keeps one address on each side.
#pragma once

#include "ptx/cp_async.cuh"

template <bool Value>
struct Guarded {
    static constexpr bool value = Value;
};

// Threads along a line of `copies`: as many as are wanted, or copies there are; of lines of three times a power of two
// the largest power of two that divides them, up to what is wanted.
constexpr int threads_along(int wanted, int copies) {
    int threads = wanted < copies ? wanted : copies;
    while (copies % threads != 0 || copies % 3 == 0 && threads % 3 == 0) --threads;
    return threads;
}

// One thread's share in copying the k-tiles of one operand: Depth of k by Extent rows (of A) or columns (of B).
template <int Extent, int Depth, int Threads, bool Transposed, bool Aligned>
struct KTileCopy {
    static constexpr int PITCH = Extent + (Transposed ? 4 : 0);  // floats from one k to the next
    static constexpr int BYTES = Depth * PITCH * 4;
    static constexpr int UNIT = Aligned && !Transposed ? 4 : 1;  // floats per copy
    static constexpr int LINES = Transposed ? Extent : Depth;    // in global memory, and their length
    static constexpr int LENGTH = Transposed ? Depth : Extent;
    // Few lines per thread, so few addresses; but at least eight threads along a line: 128 bytes, at 16 each.
    static constexpr int WANTED = Transposed ? 8 : UNIT == 1 ? 32 : Threads / Depth < 8 ? 8 : Threads / Depth;
    static constexpr int ACROSS = threads_along(WANTED, LENGTH / UNIT);
    static constexpr int PASS = Threads / ACROSS;                                   // lines per pass of all threads
    static constexpr int PASSES = (LINES - 1) / PASS + 1;
    static constexpr int PER_LINE = LENGTH / (ACROSS * UNIT);
    static constexpr int COUNT = PASSES * PER_LINE;
    static_assert(Threads % ACROSS == 0 && LENGTH % (ACROSS * UNIT) == 0, "threads share a line equally");

    const float* matrix;
    const float* source;  // this thread's first element of the k-tile
    long long ld;
    int line, lines_left, floats_left;  // its first line, and the distance from there to the matrix edge
    unsigned target;

    // Floats from the start of a k-tile to the line of k.
    static __device__ __forceinline__ constexpr int line_of(int k) { return k * PITCH; }

    // For k-tiles that begin at row (of A) or column (of B) number `first` of `extent`, from `k` of K onwards. The
    // first k-tile is stored at address `shared`.
    __device__ __forceinline__ KTileCopy(unsigned shared, const float* matrix, long long ld, int first, int extent,
                                         int k, int K)
        : matrix(matrix), ld(ld), line(threadIdx.x / ACROSS) {
        const int along = threadIdx.x % ACROSS * UNIT;
        const long long row = (Transposed ? first : k) + line, col = (Transposed ? k : first) + along;
        source = matrix + row * ld + col;
        lines_left = (Transposed ? extent - first : K - k) - line;
        floats_left = (Transposed ? K - k : extent - first) - along;
        target = shared + 4 * (Transposed ? along * PITCH + line : line * PITCH + along);
    }

    // Starts the thread's copies into the k-tile `offset` bytes after the first. With a guard, elements outside the
    // matrix become zero. Without one the whole k-tile must be inside.
    template <bool Guard>
    __device__ __forceinline__ void copy(unsigned offset) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int down = i / PER_LINE * PASS, right = i % PER_LINE * ACROSS * UNIT;
            if (LINES % PASS != 0 && line + down >= LINES) continue;
            const unsigned to = target + offset + 4 * (Transposed ? right * PITCH + down : down * PITCH + right);
            const float* const from = source + down * ld + right;
            if constexpr (Guard) {
                const int valid = down < lines_left ? max(0, min(floats_left - right, UNIT)) : 0;
                if constexpr (UNIT == 4)
                    cp_async_16_or_zero(to, valid ? from : matrix, 4 * valid);
                else
                    cp_async_4_or_zero(to, valid ? from : matrix, 4 * valid);
            } else if constexpr (UNIT == 4) {
                cp_async_16(to, from);
            } else {
                cp_async_4(to, from);
            }
        }
    }

    __device__ __forceinline__ void finish(unsigned) const {}  // nothing is left to do for the thread

    __device__ __forceinline__ void advance() {
        source += Transposed ? Depth : Depth * ld;
        (Transposed ? floats_left : lines_left) -= Depth;
    }
};
