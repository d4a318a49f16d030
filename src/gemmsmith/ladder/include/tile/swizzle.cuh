// The shared-memory layout of the tensor-core rungs: a tile of A or B is stored row by row as in global memory, but the
// 16-byte chunks of each row are permuted: chunk c of row r is at c ^ swizzle(r).
//
// Shared memory serves 128 bytes per cycle, one 4-byte word from each of 32 banks. ldmatrix reads eight chunks at a
// time, one from each of eight rows; in plain rows of 128 bytes all eight would be in the same four banks. The swizzle
// puts the eight rows that are read together at eight different positions, without padding:
//
//     row 0   0 1 2 3 4 5 6 7        16-byte chunks, by position. ldmatrix reads equal numbers
//     row 1   1 0 3 2 5 4 7 6        from eight rows: each is at a different position
//     row 2   2 3 0 1 6 7 4 5
//     row 3   3 2 1 0 7 6 5 4
//     ...
#pragma once

// A tile of Extent rows of A (or columns of B) by Depth bytes of k. KMajor: k is contiguous in memory, and the tile's
// rows are rows of A or columns of B. Otherwise the tile's rows are k, and fragments are transposed while being read.
template <class T, int Extent, int Depth, bool KMajor>
struct SwizzledTile {
    using Element = T;
    static constexpr bool K_MAJOR = KMajor;
    static constexpr int PER_CHUNK = 16 / sizeof(T);
    static constexpr int BK = Depth / sizeof(T);
    static constexpr int ROWS = KMajor ? Extent : BK;
    static constexpr int CHUNKS = KMajor ? Depth / 16 : Extent / PER_CHUNK;  // per row
    static constexpr int PITCH = CHUNKS * 16;                                // bytes per row
    static constexpr int BYTES = ROWS * PITCH;
    static constexpr int SWIZZLE_PERIOD = KMajor || sizeof(T) == 2 ? 8 : sizeof(T) == 1 ? 16 : 4;  // in rows
    static_assert(Depth == 32 || Depth == 64 || Depth == 128, "a whole number of mma steps, in few banks");
    static_assert(Extent % 64 == 0, "transposed rows of at least 64 bytes");

    // Rows that are read together need different values. Which rows those are depends on the reader (fragments.cuh).
    static __device__ __forceinline__ int swizzle(int row) {
        // 32-bit words of four adjacent rows, 32 bytes from each: permute pairs of chunks.
        if constexpr (!KMajor && sizeof(T) == 4) return row % 4 * 2;
        // Eight adjacent rows; or, for transposed bytes, rows 0, 1, 4, 5, 8, 9, 12, 13 (or all of these plus 2).
        const int rank = !KMajor && sizeof(T) == 1 ? row / 4 % 4 * 2 + row % 2 : row % 8;
        // Rows shorter than 128 bytes: adjacent rows are in different banks already.
        return CHUNKS >= 8 ? rank : CHUNKS == 4 ? rank / 2 : rank / 4;
    }

    // The byte offset of a chunk in the tile.
    static __device__ __forceinline__ unsigned offset(int row, int chunk) {
        return row * PITCH + (chunk ^ swizzle(row)) * 16;
    }
};
