// A k-tile of an fp32 operand in shared memory: ROWS rows of A (or columns of B) by 64 of k. Threads read fragments from
// it, split them and keep them in registers as the A of wgmma.
//
// It lies in boxes whose rows have 128 bytes, 32 numbers, with TMA's swizzle: chunk c (16 bytes) of row r is at
// c ^ (r % 8). K_MAJOR: a box has ROWS rows and 32 of k. Otherwise a box has 64 rows, one for each k, of 32 numbers
// along M or N.
//
// A fragment has 16 rows by 16 of k for each warp (wgmma_from_registers.cuh). Which row of the k-tile is which row of
// the fragment is free, as long as outputs go to the same row. So is the order of the 16 k, as long as the other operand
// has the same. Both are chosen so that a thread reads vectors, without bank conflicts:
//
//     K_MAJOR   four consecutive k of a row are one vector: they are k 2q, 2q + 1, 2q + 8 and 2q + 9 of the fragment,
//               q = lane % 4. Rows 0, 4, 1, 5, 2, 6, 3, 7 are rows 0 to 7 of the fragment. The other operand must be
//               stored in that order of k (split_short.cu)
//     else      rows 2f and 2f + 1 of one k are one vector: they are rows f and f + 8 of the fragment
#pragma once

#include "ptx/cp_async.cuh"
#include "ptx/shared_memory.cuh"
#include "tile/operand_tile.cuh"
#include "tile/split_bf16.cuh"

constexpr int FP32_BOX = 32;  // numbers in a row of a box

template <int ROWS, bool K_MAJOR_>
struct Fp32Tile {
    static constexpr bool K_MAJOR = K_MAJOR_;
    static constexpr int BYTES = ROWS * BK * 4;
    static constexpr int LINES = K_MAJOR ? ROWS : BK;  // rows of a box
    static constexpr int BOXES = K_MAJOR ? BK / FP32_BOX : ROWS / FP32_BOX;
    static_assert(ROWS % FP32_BOX == 0 && LINES <= 256, "a k-tile is whole boxes; a box has at most 256 rows");

    // Requests the k-tile at (row, k) of matrix z by TMA.
    static __device__ __forceinline__ void load(unsigned tile, const TensorMap& map, unsigned barrier, int row, int k,
                                                int z) {
#pragma unroll
        for (int i = 0; i < BOXES; ++i) {
            const int x = (K_MAJOR ? k : row) + i * FP32_BOX, y = K_MAJOR ? row : k;
            tma_load(tile + i * LINES * BOX_ROW, map, barrier, x, y, z);
        }
    }

    // Copies the k-tile at (row, k) from rows that start at any address, one number at a time: `thread` of THREADS
    // copies its share. Outside the matrix, which has `lines` rows of `length` as stored, numbers become zero.
    template <int THREADS>
    static __device__ __forceinline__ void copy(unsigned tile, const float* matrix, long long ld, int lines, int length,
                                                int row, int k, int thread) {
        const int top = K_MAJOR ? row : k, left = K_MAJOR ? k : row;
        const int lane = thread % FP32_BOX, first = thread / FP32_BOX;
        constexpr int AT_ONCE = THREADS / FP32_BOX;  // lines
        const float* from = matrix + static_cast<long long>(top + first) * ld + left + lane;
#pragma unroll 4
        for (int line = first; line < LINES; line += AT_ONCE) {
            const bool exists = top >= 0 && top + line < lines;
#pragma unroll
            for (int i = 0; i < BOXES; ++i) {
                const int x = i * FP32_BOX + lane;
                const bool valid = exists && left + x < length;
                cp_async_4_or_zero(tile + (i * LINES + line) * BOX_ROW + ((lane / 4 ^ line % 8) * 16 + lane % 4 * 4),
                                   valid ? from + i * FP32_BOX : matrix, valid ? 4 : 0);
            }
            from += AT_ONCE * ld;
        }
    }

    // The row of the 16 of a warp that is row `f` + 8 `half` of its fragment.
    static __device__ __forceinline__ int row_of(int f, int half) {
        return K_MAJOR ? (f / 2 | f % 2 * 4) + half * 8 : f * 2 + half;
    }

    // Where this thread's vectors of a warp's 16 rows are. K_MAJOR: in the first 16 of k, of the fragment's upper and
    // lower rows. Else: of the first and of the second k of its pair.
    struct Offsets {
        unsigned of[2];
    };
    static __device__ __forceinline__ Offsets offsets(int first_row) {
        const int lane = threadIdx.x % 32, f = lane / 4, q = lane % 4;
        Offsets found;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if constexpr (K_MAJOR) {
                const int r = first_row + row_of(f, i);
                found.of[i] = r * BOX_ROW + (q ^ r % 8) * 16;
            } else {
                const int n = first_row + 2 * f, k = 2 * q + i;
                found.of[i] = n / FP32_BOX * (BK * BOX_ROW) + k * BOX_ROW + (n % FP32_BOX / 4 ^ k) * 16 + n % 4 * 4;
            }
        }
        return found;
    }

    // This thread's numbers of the 16 of k number `step`, split: terms[p] is a fragment of wgmma.
    static __device__ __forceinline__ void load_split(unsigned (&terms)[3][4], unsigned tile, const Offsets& offsets,
                                                      int step) {
        unsigned x[2][4];  // upper and lower row; the four k
        if constexpr (K_MAJOR) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const unsigned at = (offsets.of[half] ^ step % 2 * 64) + step / 2 * LINES * BOX_ROW;
                const uint4 four = load_shared_16(tile + at);
                x[half][0] = four.x, x[half][1] = four.y, x[half][2] = four.z, x[half][3] = four.w;
            }
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                load_shared_8(x[0][e], x[1][e], tile + offsets.of[e % 2] + (step * 16 + e / 2 * 8) * BOX_ROW);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // register i of a fragment: row i % 2, pair of k i / 2
            unsigned pair[3];
            split_pair(pair, x[i % 2][i / 2 * 2], x[i % 2][i / 2 * 2 + 1]);
#pragma unroll
            for (int p = 0; p < 3; ++p) terms[p][i] = pair[p];
        }
    }
};
