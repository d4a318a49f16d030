// A slice of A or B in shared memory, as the copy engine writes it and wgmma reads it: ROWS rows of A (or columns of B)
// by 64 of k, 16-bit elements.
//
// Where k runs along the rows of the stored matrix (K_MAJOR: A as it is, B transposed), the slice is one box of ROWS
// rows of 64 of k. Else the other side runs along the rows, and the slice is a box of 64 rows of k for every 64 of
// ROWS. wgmma takes both. SHARES blocks of a cluster that need the same slice load one part of it each: rows of each
// box. A slice along k may as well come in several boxes of LINES rows, which lie one after another.
#pragma once

#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

constexpr int BK = BOX;  // depth of a slice

struct SliceRange {
    int begin, end;
};

// The numbers of the stages, `depth` slices each, that block `rank` of `parts` multiplies. Where there is nothing to
// multiply (K or alpha is 0, or fewer stages than parts) it is one beyond the matrices, which arrives as zeros: so
// every loop has a step.
__device__ __forceinline__ SliceRange slice_range(int K, float& alpha, int depth = 1, int rank = 0, int parts = 1) {
    const int count = K == 0 ? 0 : (K - 1) / (BK * depth) + 1;
    const int begin = static_cast<long long>(count) * rank / parts;
    const int end = static_cast<long long>(count) * (rank + 1) / parts;
    if (K == 0) alpha = 0.0f;  // an infinite alpha must not give NaN
    if (alpha == 0.0f || begin == end) return {count + 1, count + 2};
    return {begin, end};
}

template <int ROWS, bool K_MAJOR_, int SHARES = 1, int LINES = K_MAJOR_ ? ROWS : BK>
struct OperandTile {
    static constexpr bool K_MAJOR = K_MAJOR_;
    static constexpr int BOXES = K_MAJOR ? ROWS / LINES : (ROWS + BOX - 1) / BOX;
    static constexpr int BOX_ROWS = LINES / SHARES;
    static constexpr int BYTES = BOXES * LINES * BOX_ROW;
    static_assert(BOX_ROWS % 8 == 0 && BOX_ROWS <= 256, "a part is whole 1024-byte blocks; a box ends at 256");

    // Asks for this block's part of the slice at (row, k) of product z, for itself or for all blocks in `mask`.
    static __device__ __forceinline__ void load(unsigned slice, const TensorMap& map, unsigned barrier, int row, int k,
                                                int z, int part = 0, unsigned short mask = 0) {
        const int skip = part * BOX_ROWS;
#pragma unroll
        for (int i = 0; i < BOXES; ++i) {
            const unsigned target = slice + (i * LINES + skip) * BOX_ROW;
            const int x = K_MAJOR ? k : row + i * BOX, y = K_MAJOR ? row + i * LINES + skip : k + skip;
            if constexpr (SHARES > 1)
                tma_load_multicast(target, map, barrier, mask, x, y, z);
            else
                tma_load(target, map, barrier, x, y, z);
        }
    }

    // For wgmma: the 64 rows number `tile`, the 16 of k number `step`.
    static __device__ __forceinline__ unsigned long long descriptor(unsigned slice, int tile, int step) {
        return matrix_descriptor<K_MAJOR>(slice + tile * BOX_BYTES) + step * K_STEP<K_MAJOR>;
    }
};
