// Slices of an operand whose rows start anywhere, for products whose A comes from registers.
//
// The copy engine takes no such rows. So each line of the stored matrix comes by cp.async as the 16-byte granules that
// it lies in, one more than it would have if it started on a boundary, and threads take their fragments from where the
// elements happen to be:
//
//     K_MAJOR   a line is a row, and runs along k; two neighbours in k lie in one word, or across two
//     else      a line has one k; two neighbours in k lie in two lines
//
// How far a line starts from a boundary depends on where the operand lies and its leading dimension, never on k: slices
// are 64 apart. What lies behind a line, and lines that do not exist, arrive as zeros; before a line its first granule
// has up to seven elements of something else, which nobody takes.
#pragma once

#include "tile/unaligned_rows.cuh"
#include "ptx/mbarrier.cuh"
#include "tile/operand_tile.cuh"
#include "ptx/shared_loads.cuh"

__device__ __forceinline__ void cp_async_16(unsigned shared, const void* global) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
// 16 bytes, of which the first `bytes` are read and the others are zero.
__device__ __forceinline__ void cp_async_16_or_less(unsigned shared, const void* global, int bytes) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
                 : "memory");
}

// Arrives at the barrier once all copies that this thread has asked for have landed.
__device__ __forceinline__ void cp_async_arrive(unsigned barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

template <class T, int ROWS, int SLICES_, bool K_MAJOR_>
struct LooseTile : AnyRows<T> {
    static constexpr int SLICES = SLICES_;
    static constexpr bool K_MAJOR = K_MAJOR_;
    static constexpr int LINES = K_MAJOR ? ROWS : SLICES * BK, LENGTH = K_MAJOR ? SLICES * BK : ROWS;
    static constexpr int GRANULES = LENGTH / GRANULE + 1, PITCH = GRANULES * 16;
    static constexpr int BYTES = LINES * PITCH;

    using Matrix = AnyRows<T>;
    using Matrix::matrix, Matrix::ld, Matrix::lines, Matrix::length, Matrix::skew;
    int row;  // where the tile begins

    // Whether slices at k and all of the granules that they lie in are inside the matrix.
    __device__ __forceinline__ bool inside(int k) const {
        const int top = K_MAJOR ? row : k, left = K_MAJOR ? k : row;
        return k >= 0 && top <= lines - LINES && left <= length - LENGTH - GRANULE;
    }

    // Asks for slices; `thread` of THREADS has its part of them. A thread's granules stay where they are in their lines,
    // so that from slice to slice nothing is left to compute but where these go on. Neighbours have neighbouring
    // granules.
    template <int THREADS>
    struct Loader {
        static constexpr int ALL = LINES * GRANULES, COUNT = (ALL + THREADS - 1) / THREADS;
        const T* from[COUNT];

        __device__ __forceinline__ Loader(const LooseTile& tile, int k, int thread) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const int number = i * THREADS + thread, line = number / GRANULES + (K_MAJOR ? tile.row : k);
                const int left = K_MAJOR ? k : tile.row;
                from[i] = tile.matrix + line * tile.ld + left - tile.skew(line, left) + number % GRANULES * GRANULE;
            }
        }
        // The slices at the loader's own k, which are inside.
        __device__ __forceinline__ void load(unsigned target, int thread) const {
#pragma unroll
            for (int i = 0; i < COUNT; ++i)
                if (has(i, thread)) cp_async_16(target + (i * THREADS + thread) * 16, from[i]);
        }
        // The same where they may reach beyond the matrix. A k that has overflowed lies beyond it, too.
        __device__ __forceinline__ void load_guarded(const LooseTile& tile, unsigned target, int k, int thread) const {
            const int top = K_MAJOR ? tile.row : k, left = K_MAJOR ? k : tile.row;
            const int rest = k >= 0 && left < tile.length ? tile.length - left : 0;  // of each line
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const unsigned number = i * THREADS + thread, line = top + number / GRANULES;
                const int after = number % GRANULES * GRANULE - tile.skew(line, left);  // of `left`
                const bool wanted = rest > 0 && line < static_cast<unsigned>(tile.lines) && after < LENGTH;
                const int count = wanted ? max(0, min(GRANULE, rest - after)) : 0;
                if (has(i, thread))
                    cp_async_16_or_less(target + number * 16, count > 0 ? from[i] : tile.matrix - tile.skew(0, 0),
                                        count * static_cast<int>(sizeof(T)));
            }
        }
        __device__ __forceinline__ void advance(const LooseTile& tile) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) from[i] += K_MAJOR ? SLICES * BK : SLICES * BK * tile.ld;
        }
        static __device__ __forceinline__ bool has(int i, int thread) {
            return (i + 1) * THREADS <= ALL || thread < ALL - i * THREADS;
        }
    };

    // Where this thread of a group finds its elements of the 64 rows number `tile`, from the slices' beginning.
    struct Place {
        unsigned first, second;  // K_MAJOR: of its row and the one 8 further down; else of its k and the next
        unsigned odd, second_odd;
    };
    __device__ __forceinline__ Place place(int tile) const {
        const int lane = threadIdx.x % 32, r = tile * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4, pair = lane % 4 * 2;
        if constexpr (K_MAJOR) {
            const unsigned one = skew(row + r, 0), two = skew(row + r + 8, 0);
            return {r * PITCH + (one / 2 * 2 + pair) * 2, (r + 8) * PITCH + (two / 2 * 2 + pair) * 2, one % 2, two % 2};
        } else {
            return {pair * PITCH + (skew(pair, row) + r) * 2, (pair + 1) * PITCH + (skew(pair + 1, row) + r) * 2, 0, 0};
        }
    }

    // This thread's part of 64 rows by 16 of k, `k` after the slices' beginning.
    static __device__ __forceinline__ void fragment(unsigned (&a)[4], unsigned slices, const Place& place, int k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if constexpr (K_MAJOR) {
                const unsigned address = slices + (i % 2 ? place.second : place.first) + (k + i / 2 * 8) * 2;
                const unsigned odd = i % 2 ? place.second_odd : place.odd;
                a[i] = __funnelshift_r(load_shared_4(address), load_shared_4(address + 4), odd * 16);
            } else {
                const unsigned further = (k + i / 2 * 8) * PITCH + i % 2 * 16;
                a[i] = load_shared_2(slices + place.first + further) |
                       load_shared_2(slices + place.second + further) << 16;
            }
        }
    }
};
