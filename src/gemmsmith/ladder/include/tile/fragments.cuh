// Fragments: what each lane of a warp holds of A, of B and of the sums.
//
// A fragment is 16 rows of A, or 16 columns of B, by 32 bytes of k, in four registers a lane. With g = lane / 4 and
// q = lane % 4, a lane holds the q-th 4 bytes of
//
//       A              first, second 16 bytes of k          B            first, second 16 bytes of k
//     row g              r[0]    r[2]                     column g         r[0]    r[1]       one operand of mma.sync
//     row g + 8          r[1]    r[3]                     column g + 8     r[2]    r[3]       another
//
// and of the 16 x 8 sums: row g, columns 2q and 2q + 1; then the same of row g + 8. (The registers of an operand must
// be neighbours, or each mma.sync costs moves: hence the two orders.)
#pragma once

#include "ptx/mma.cuh"
#include "tile/swizzle.cuh"

enum class Operand { A, B };

// How 32-bit elements are read that are stored with k as the slow index, which ldmatrix cannot transpose.
enum class Words { SINGLE, PAIRED };

// Reads one operand's fragments from swizzled tiles. A lane works out once where its part of the first fragment lies;
// those of all others are an XOR or a sum with a constant away.
template <Operand Which, class Tile, Words Read = Words::SINGLE>
struct FragmentReader {
    using T = typename Tile::Element;
    // Words stored with k as the slow index: one load can fetch two neighbours, if they belong in two neighbouring
    // registers, as those of A do and those of B do not.
    static constexpr bool PAIRED = Read == Words::PAIRED && Which == Operand::A && !Tile::ALONG_K && sizeof(T) == 4;
    // Bytes stored so: ldmatrix cannot transpose them, but it can transpose pairs of them. Given rows 0, 1, 4, 5 .. and
    // 2, 3, 6, 7 .., it delivers words with k ascending for two neighbours, once their bytes are sorted.
    // In both cases the neighbours become g and g + 8 of the fragment, so what mma.sync calls g is 2g in truth.
    static constexpr bool INTERLEAVED = PAIRED || (!Tile::ALONG_K && sizeof(T) == 1);

    unsigned lane_offset;

    // `first` is the first row of A, or column of B, of this warp.
    __device__ __forceinline__ explicit FragmentReader(int first) {
        const int lane = threadIdx.x % 32;
        const int upper = Which == Operand::A ? lane / 8 % 2 : lane / 16;   // this lane's matrix: which half of the 16,
        const int k_half = Which == Operand::A ? lane / 16 : lane / 8 % 2;  // and which of k
        if constexpr (Tile::ALONG_K)
            lane_offset = Tile::place(first + lane % 8 + upper * 8, k_half);
        else if constexpr (sizeof(T) == 2)
            lane_offset = Tile::place(lane % 8 + k_half * 8, first / 8 + upper);
        else if constexpr (sizeof(T) == 1)
            lane_offset = Tile::place(lane / 16 * 16 + lane % 8 / 2 * 4 + lane / 8 % 2 * 2 + lane % 2, first / 16);
        else if constexpr (PAIRED)
            lane_offset = Tile::place(lane % 4, first / 4 + lane / 8) + lane / 4 % 2 * 8;
        else
            lane_offset = Tile::place(lane % 4, (first + lane / 4) / 4) + lane / 4 % 4 * 4;
    }

    // Fragment `index` of this warp for step `step` of the tile at address `tile`.
    __device__ __forceinline__ void load(unsigned (&r)[4], unsigned tile, int index, int step) const {
        if constexpr (Tile::ALONG_K) {
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

    // So many rows below and bytes to the right of the lane's first place.
    __device__ __forceinline__ unsigned at(int rows, int bytes) const {
        return (lane_offset ^ (bytes & 127)) + (bytes & ~127) + rows * Tile::PITCH;
    }
};

// The row, within 16, of this lane's sums 2 * half and 2 * half + 1.
template <bool InterleavedA>
__device__ __forceinline__ int sum_row(int half) {
    const int g = threadIdx.x % 32 / 4;
    return InterleavedA ? 2 * g + half : g + 8 * half;
}

// Of two neighbouring 16 x 8 sums, four neighbours in one row for each lane; returns the column, within 16, of the
// first. `pair` points at this lane's two sums of that row in the left one; those of the right one lie four further on.
// Two lanes swap, so that each writes four in one piece instead of twice two.
template <bool InterleavedB, class Sum>
__device__ __forceinline__ int four_neighbours(Sum (&four)[4], const Sum* pair) {
    const int q = threadIdx.x % 4;
    const bool odd = q % 2;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const Sum left = pair[j], right = pair[4 + j];
        if constexpr (InterleavedB) {
            four[2 * j] = left;
            four[2 * j + 1] = right;
        } else {
            const Sum theirs = __shfl_xor_sync(~0u, odd ? left : right, 1);
            four[j] = odd ? theirs : left;
            four[2 + j] = odd ? right : theirs;
        }
    }
    return InterleavedB ? 4 * q : odd ? 8 + 2 * (q - 1) : 2 * q;
}
