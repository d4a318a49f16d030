// Copying slices of A and B into shared memory so that they lie there one way, whatever the layout: for each k a line
// of all rows of A, or all columns of B. What global memory has along k is transposed on the way, which copies of 4
// bytes can do at any alignment.
//
//     Direct      lines of k, 16 bytes at a time; or, where lines do not start on 16 bytes, 4
//     Transposed  lines of rows or columns, 4 bytes at a time: eight neighbours in k, a sector of 32 bytes, go to eight
//                 lines. These are padded by four banks, so that 8 k by 4 rows are in 32 different ones.
//
// A thread goes over its lines at constant distances in shared memory: it keeps one address on each side.
#pragma once

#include "ptx/cp_async.cuh"

__device__ __forceinline__ void cp_async_16(unsigned shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

__device__ __forceinline__ void cp_async_4(unsigned shared, const void* global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(global) : "memory");
}

// The first `bytes` come from global memory, the others are zero. The address must be legal even if none do.
__device__ __forceinline__ void cp_async_16_or_zero(unsigned shared, const void* global, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_4_or_zero(unsigned shared, const void* global, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

template <bool Value>
struct Guarded {
    static constexpr bool value = Value;
};

// The share of one of Threads threads in copying slices of one operand, Depth of k by Extent rows or columns.
template <int Extent, int Depth, int Threads, bool Transposed, bool Aligned>
struct SliceCopy {
    static constexpr int PITCH = Extent + (Transposed ? 4 : 0);  // floats from one k to the next
    static constexpr int BYTES = Depth * PITCH * 4;
    static constexpr int UNIT = Aligned && !Transposed ? 4 : 1;  // floats of one copy
    static constexpr int LINES = Transposed ? Extent : Depth;    // of global memory, and their length
    static constexpr int LENGTH = Transposed ? Depth : Extent;
    // Few lines a thread, so few addresses; but at least eight threads along a line: 128 bytes, at 16 each.
    static constexpr int WANTED = Transposed ? 8 : UNIT == 1 ? 32 : Threads / Depth < 8 ? 8 : Threads / Depth;
    static constexpr int ACROSS = WANTED < LENGTH / UNIT ? WANTED : LENGTH / UNIT;  // threads along a line
    static constexpr int PASS = Threads / ACROSS;                                   // lines that all copy at a time
    static constexpr int PASSES = (LINES - 1) / PASS + 1;
    static constexpr int PER_LINE = LENGTH / (ACROSS * UNIT);
    static constexpr int COUNT = PASSES * PER_LINE;
    static_assert(Threads % ACROSS == 0 && LENGTH % (ACROSS * UNIT) == 0, "threads share a line equally");

    const float* matrix;
    const float* source;  // this thread's first element of the slice
    long long ld;
    int line, lines_left, floats_left;  // its first line, and what is left of the matrix from its place on
    unsigned target;

    // For slices that begin at row (of A) or column (of B) number `first` of `extent`, from the k-th of K on. The first
    // lies at address `shared`.
    __device__ __forceinline__ SliceCopy(unsigned shared, const float* matrix, long long ld, int first, int extent,
                                         int k, int K)
        : matrix(matrix), ld(ld), line(threadIdx.x / ACROSS) {
        const int along = threadIdx.x % ACROSS * UNIT;
        const long long row = (Transposed ? first : k) + line, col = (Transposed ? k : first) + along;
        source = matrix + row * ld + col;
        lines_left = (Transposed ? extent - first : K - k) - line;
        floats_left = (Transposed ? K - k : extent - first) - along;
        target = shared + 4 * (Transposed ? along * PITCH + line : line * PITCH + along);
    }

    // Starts the thread's copies into the slice `offset` bytes after the first. With a guard, what lies outside the
    // matrix becomes zero; without, all of the slice must lie inside.
    template <bool Guard>
    __device__ __forceinline__ void copy(unsigned offset) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int down = i / PER_LINE * PASS, right = i % PER_LINE * ACROSS * UNIT;
            if (LINES % PASS != 0 && line + down >= LINES) continue;
            const unsigned place = target + offset + 4 * (Transposed ? right * PITCH + down : down * PITCH + right);
            const float* const from = source + down * ld + right;
            if constexpr (Guard) {
                const int valid = down < lines_left ? max(0, min(floats_left - right, UNIT)) : 0;
                if constexpr (UNIT == 4)
                    cp_async_16_or_zero(place, valid ? from : matrix, 4 * valid);
                else
                    cp_async_4_or_zero(place, valid ? from : matrix, 4 * valid);
            } else if constexpr (UNIT == 4) {
                cp_async_16(place, from);
            } else {
                cp_async_4(place, from);
            }
        }
    }

    __device__ __forceinline__ void advance() {
        source += Transposed ? Depth : Depth * ld;
        (Transposed ? floats_left : lines_left) -= Depth;
    }
};
