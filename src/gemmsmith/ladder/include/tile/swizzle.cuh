// How the tensor-core rungs lay a tile of A or B out in shared memory: as stored in global memory, row by row, but the
// 16-byte chunks of row r change places: chunk c lies at c ^ mix(r).
//
// Shared memory serves 128 bytes at a time, one 4-byte word from each of 32 banks. ldmatrix takes eight chunks at a
// time, one from each of eight rows: plain rows of 128 bytes would have all eight in the same four banks. mix sends
// the eight rows that are read together to eight different places, and nothing is padded:
//
//     row 0   0 1 2 3 4 5 6 7        chunks of 16 bytes; a column of equal numbers, which ldmatrix reads,
//     row 1   1 0 3 2 5 4 7 6        touches every place once
//     row 2   2 3 0 1 6 7 4 5
//     row 3   3 2 1 0 7 6 5 4
//     ...
#pragma once

// A tile of Extent rows of A (or columns of B) by Depth bytes of k. AlongK: k is the fast index in memory, rows are
// rows of A or columns of B. Otherwise rows are k, and fragments must be transposed on their way to the registers.
template <class T, int Extent, int Depth, bool AlongK>
struct SwizzledTile {
    using Element = T;
    static constexpr bool ALONG_K = AlongK;
    static constexpr int PER_CHUNK = 16 / sizeof(T);
    static constexpr int BK = Depth / sizeof(T);
    static constexpr int ROWS = AlongK ? Extent : BK;
    static constexpr int CHUNKS = AlongK ? Depth / 16 : Extent / PER_CHUNK;  // of a row
    static constexpr int PITCH = CHUNKS * 16;                                // bytes of a row
    static constexpr int BYTES = ROWS * PITCH;
    static constexpr int MIX_PERIOD = AlongK || sizeof(T) == 2 ? 8 : sizeof(T) == 1 ? 16 : 4;  // rows until mix repeats
    static_assert(Depth == 32 || Depth == 64 || Depth == 128, "a whole number of mma steps, in few banks");
    static_assert(Extent % 64 == 0, "transposed rows of at least 64 bytes");

    // Which rows are read together, and so must be told apart, depends on the reader (fragments.cuh).
    static __device__ __forceinline__ int mix(int row) {
        // 32-bit words of four neighbouring rows, 32 bytes of each: pairs of chunks move.
        if constexpr (!AlongK && sizeof(T) == 4) return row % 4 * 2;
        // Eight neighbouring rows; or, of transposed bytes, rows 0, 1, 4, 5, 8, 9, 12, 13 (or all those plus 2).
        const int rank = !AlongK && sizeof(T) == 1 ? row / 4 % 4 * 2 + row % 2 : row % 8;
        // Rows shorter than 128 bytes: neighbouring rows already lie in different banks.
        return CHUNKS >= 8 ? rank : CHUNKS == 4 ? rank / 2 : rank / 4;
    }

    // The byte offset of a chunk in the tile.
    static __device__ __forceinline__ unsigned place(int row, int chunk) {
        return row * PITCH + (chunk ^ mix(row)) * 16;
    }
};
