// k-tiles of an unaligned operand, for wgmma with A in registers.
//
// TMA requires rows that start on 16 bytes. Here each line of the stored matrix is copied by cp.async as the 16-byte
// granules it lies in, one more than an aligned line would need. Threads then read their fragments from wherever the
// elements are:
//
//     K_MAJOR   a line is a row and runs along k: two consecutive k are in one word, or straddle two
//     else      a line has one k: two consecutive k are in two lines
//
// A line's distance from a 16-byte boundary depends on the operand's address and leading dimension, never on k, since
// k-tiles are 64 apart. Elements after the end of a line, and lines that do not exist, become zero. The first granule
// of a line may begin with up to seven elements that do not belong to it; no thread reads them.
#pragma once

#include "ptx/cp_async.cuh"
#include "ptx/shared_memory.cuh"
#include "tile/operand_tile.cuh"
#include "tile/unaligned_rows.cuh"

template <class T, int ROWS, int K_TILES_, bool K_MAJOR_>
struct UnalignedTile : UnalignedRows<T> {
    static constexpr int K_TILES = K_TILES_;  // per stage
    static constexpr bool K_MAJOR = K_MAJOR_;
    static constexpr int LINES = K_MAJOR ? ROWS : K_TILES * BK, LENGTH = K_MAJOR ? K_TILES * BK : ROWS;
    static constexpr int GRANULES = LENGTH / GRANULE + 1, PITCH = GRANULES * 16;
    static constexpr int BYTES = LINES * PITCH;

    using Matrix = UnalignedRows<T>;
    using Matrix::matrix, Matrix::ld, Matrix::lines, Matrix::length, Matrix::skew;
    int row;  // where the tile begins

    // Whether the k-tiles at k, with all granules they lie in, are inside the matrix.
    __device__ __forceinline__ bool inside(int k) const {
        const int top = K_MAJOR ? row : k, left = K_MAJOR ? k : row;
        return k >= 0 && top <= lines - LINES && left <= length - LENGTH - GRANULE;
    }

    // Copies k-tiles; `thread` of THREADS copies its share. A thread's granules keep their positions within their
    // lines, so from stage to stage only the pointers advance. Adjacent threads copy adjacent granules.
    template <int THREADS>
    struct Loader {
        static constexpr int ALL = LINES * GRANULES, COUNT = (ALL + THREADS - 1) / THREADS;
        const T* from[COUNT];

        __device__ __forceinline__ Loader(const UnalignedTile& tile, int k, int thread) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const int number = i * THREADS + thread, line = number / GRANULES + (K_MAJOR ? tile.row : k);
                const int left = K_MAJOR ? k : tile.row;
                from[i] = tile.matrix + line * tile.ld + left - tile.skew(line, left) + number % GRANULES * GRANULE;
            }
        }
        // The k-tiles at the loader's current k, which must be inside the matrix.
        __device__ __forceinline__ void load(unsigned target, int thread) const {
#pragma unroll
            for (int i = 0; i < COUNT; ++i)
                if (has(i, thread)) cp_async_16_l2_128(target + (i * THREADS + thread) * 16, from[i]);
        }
        // The same for k-tiles that may extend beyond the matrix. A k that has overflowed counts as beyond.
        __device__ __forceinline__ void load_guarded(const UnalignedTile& tile, unsigned target, int k,
                                                     int thread) const {
            const int top = K_MAJOR ? tile.row : k, left = K_MAJOR ? k : tile.row;
            const int rest = k >= 0 && left < tile.length ? tile.length - left : 0;  // of each line
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const unsigned number = i * THREADS + thread, line = top + number / GRANULES;
                const int after = number % GRANULES * GRANULE - tile.skew(line, left);  // elements after `left`
                const bool wanted = rest > 0 && line < static_cast<unsigned>(tile.lines) && after < LENGTH;
                const int count = wanted ? max(0, min(GRANULE, rest - after)) : 0;
                if (has(i, thread))
                    cp_async_16_l2_128_or_zero(target + number * 16,
                                               count > 0 ? from[i] : tile.matrix - tile.skew(0, 0),
                                               count * static_cast<int>(sizeof(T)));
            }
        }
        __device__ __forceinline__ void advance(const UnalignedTile& tile) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) from[i] += K_MAJOR ? K_TILES * BK : K_TILES * BK * tile.ld;
        }
        static __device__ __forceinline__ bool has(int i, int thread) {
            return (i + 1) * THREADS <= ALL || thread < ALL - i * THREADS;
        }
    };

    // Offsets of this thread's elements of the 64 rows number `m_tile`, from the start of the k-tiles.
    struct Offsets {
        unsigned first, second;  // K_MAJOR: of its row and of the row 8 below; else of its k and of the next
        unsigned odd, second_odd;
    };
    __device__ __forceinline__ Offsets offsets(int m_tile) const {
        const int lane = threadIdx.x % 32, r = m_tile * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4, pair = lane % 4 * 2;
        if constexpr (K_MAJOR) {
            const unsigned one = skew(row + r, 0), two = skew(row + r + 8, 0);
            return {r * PITCH + (one / 2 * 2 + pair) * 2, (r + 8) * PITCH + (two / 2 * 2 + pair) * 2, one % 2, two % 2};
        } else {
            return {pair * PITCH + (skew(pair, row) + r) * 2, (pair + 1) * PITCH + (skew(pair + 1, row) + r) * 2, 0, 0};
        }
    }

    // This thread's fragment of 64 rows by 16 of k, `k` after the start of the k-tiles.
    static __device__ __forceinline__ void load_fragment(unsigned (&a)[4], unsigned tiles, const Offsets& offsets,
                                                         int k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if constexpr (K_MAJOR) {
                const unsigned address = tiles + (i % 2 ? offsets.second : offsets.first) + (k + i / 2 * 8) * 2;
                const unsigned odd = i % 2 ? offsets.second_odd : offsets.odd;
                a[i] = __funnelshift_r(load_shared_4(address), load_shared_4(address + 4), odd * 16);
            } else {
                const unsigned further = (k + i / 2 * 8) * PITCH + i % 2 * 16;
                a[i] = load_shared_2(tiles + offsets.first + further) |
                       load_shared_2(tiles + offsets.second + further) << 16;
            }
        }
    }
};
