// Fragments: what each lane of a warp holds of A, of B and of the accumulators.
//
// A fragment is 16 rows of A, or 16 columns of B, by 32 bytes of k, in four registers per lane. With g = lane / 4 and
// q = lane % 4, a lane holds the q-th 4 bytes of
//
//       A              first, second 16 bytes of k          B            first, second 16 bytes of k
//     row g              r[0]    r[2]                     column g         r[0]    r[1]       one mma.sync operand
//     row g + 8          r[1]    r[3]                     column g + 8     r[2]    r[3]       the next one
//
// and of the 16 x 8 accumulators: row g, columns 2q and 2q + 1; then the same of row g + 8. (The two orders differ
// because the registers of one operand must be consecutive, or each mma.sync costs moves.)
#pragma once

#include "ptx/convert.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared_memory.cuh"
#include "tile/swizzle.cuh"

enum class Operand { A, B };

// How 32-bit elements of a tile that is not K-major are read. (ldmatrix cannot transpose them.)
enum class Words { SINGLE, PAIRED };

// Reads one operand's fragments from swizzled tiles. A lane computes the offset of its part of the first fragment once;
// all other offsets follow from it by an XOR or an addition with a constant.
template <Operand Which, class Tile, Words Read = Words::SINGLE>
struct FragmentReader {
    using T = typename Tile::Element;
    // 32-bit words, not K-major: one load fetches two adjacent rows if they belong in consecutive registers, as those
    // of A do and those of B do not.
    static constexpr bool PAIRED = Read == Words::PAIRED && Which == Operand::A && !Tile::K_MAJOR && sizeof(T) == 4;
    // Bytes, not K-major: ldmatrix transposes pairs of bytes. Given rows 0, 1, 4, 5 .. and 2, 3, 6, 7 .., it delivers
    // words with k ascending for two adjacent rows of A (columns of B), once their bytes are permuted.
    // In both cases adjacent rows become rows g and g + 8 of the fragment: mma.sync's row g is row 2g of the tile.
    static constexpr bool INTERLEAVED = PAIRED || (!Tile::K_MAJOR && sizeof(T) == 1);

    unsigned lane_offset;

    // `first` is this warp's first row of A or column of B.
    __device__ __forceinline__ explicit FragmentReader(int first) {
        const int lane = threadIdx.x % 32;
        const int upper = Which == Operand::A ? lane / 8 % 2 : lane / 16;   // this lane's matrix: which half of the 16
        const int k_half = Which == Operand::A ? lane / 16 : lane / 8 % 2;  // and which half of k
        if constexpr (Tile::K_MAJOR)
            lane_offset = Tile::offset(first + lane % 8 + upper * 8, k_half);
        else if constexpr (sizeof(T) == 2)
            lane_offset = Tile::offset(lane % 8 + k_half * 8, first / 8 + upper);
        else if constexpr (sizeof(T) == 1)
            lane_offset = Tile::offset(lane / 16 * 16 + lane % 8 / 2 * 4 + lane / 8 % 2 * 2 + lane % 2, first / 16);
        else if constexpr (PAIRED)
            lane_offset = Tile::offset(lane % 4, first / 4 + lane / 8) + lane / 4 % 2 * 8;
        else
            lane_offset = Tile::offset(lane % 4, (first + lane / 4) / 4) + lane / 4 % 4 * 4;
    }

    // Fragment `index` of this warp, for step `step` of the tile at address `tile`.
    __device__ __forceinline__ void load(unsigned (&r)[4], unsigned tile, int index, int step) const {
        if constexpr (Tile::K_MAJOR) {
            ldmatrix_x4<false>(r, tile + at(index * 16, step * 32));
        } else if constexpr (sizeof(T) == 2) {
            ldmatrix_x4<true>(r, tile + at(step * 16, index * 32));
        } else if constexpr (sizeof(T) == 1) {
            unsigned pairs[4];
            ldmatrix_x4<true>(pairs, tile + at(step * 32, index * 16));
#pragma unroll
            for (int k_half = 0; k_half < 2; ++k_half) {
                r[slot(0, k_half)] = __byte_perm(pairs[2 * k_half], pairs[2 * k_half + 1], 0x6420);
                r[slot(1, k_half)] = __byte_perm(pairs[2 * k_half], pairs[2 * k_half + 1], 0x7531);
            }
        } else if constexpr (PAIRED) {
#pragma unroll
            for (int k_half = 0; k_half < 2; ++k_half)
                load_shared_8(r[slot(0, k_half)], r[slot(1, k_half)], tile + at(step * 8 + k_half * 4, index * 64));
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                r[slot(i % 2, i / 2)] = load_shared_4(tile + at(step * 8 + i / 2 * 4, index * 64 + i % 2 * 32));
        }
    }

private:
    static __device__ __forceinline__ constexpr int slot(int upper, int k_half) {
        return Which == Operand::A ? upper + 2 * k_half : 2 * upper + k_half;
    }

    // The address offset `rows` below and `bytes` to the right of the lane's first offset.
    __device__ __forceinline__ unsigned at(int rows, int bytes) const {
        return (lane_offset ^ (bytes & 127)) + (bytes & ~127) + rows * Tile::PITCH;
    }
};

// Rounds fragments of fp32 to tf32; does nothing to other types. Without it the tensor core ignores the low 13 bits,
// which truncates: twice the error, and always in the same direction.
template <class T, bool Round, int Count>
__device__ __forceinline__ void round_to_tf32(unsigned (&fragments)[Count][4]) {
    if constexpr (Round && sizeof(T) == 4)
#pragma unroll
        for (int i = 0; i < Count; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) fragments[i][j] = nearest_tf32(fragments[i][j]);
}

// The row, within 16, of this lane's accumulators 2 * half and 2 * half + 1.
template <bool InterleavedA>
__device__ __forceinline__ int accumulator_row(int half) {
    const int g = threadIdx.x % 32 / 4;
    return InterleavedA ? 2 * g + half : g + 8 * half;
}

// From two adjacent 16 x 8 accumulator tiles: four consecutive columns of one row for each lane. Returns the column,
// within 16, of the first. `pair` points at this lane's two accumulators of that row in the left tile; those of the
// right tile are four further on. Two lanes exchange a pair, so that each stores four elements at once instead of two
// twice.
template <bool InterleavedB, class Acc>
__device__ __forceinline__ int four_consecutive(Acc (&four)[4], const Acc* pair) {
    const int q = threadIdx.x % 4;
    const bool odd = q % 2;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const Acc left = pair[j], right = pair[4 + j];
        if constexpr (InterleavedB) {
            four[2 * j] = left;
            four[2 * j + 1] = right;
        } else {
            const Acc received = __shfl_xor_sync(~0u, odd ? left : right, 1);
            four[j] = odd ? received : left;
            four[2 + j] = odd ? right : received;
        }
    }
    return InterleavedB ? 4 * q : odd ? 8 + 2 * (q - 1) : 2 * q;
}
