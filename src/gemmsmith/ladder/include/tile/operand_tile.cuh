// A k-tile of A or B in shared memory, as TMA writes it and wgmma reads it: ROWS rows of A (or columns of B) by 64 of
// k, 16-bit elements.
//
// K_MAJOR (A not transposed, B transposed): k runs along the rows of the stored matrix, and the k-tile is one box of
// ROWS rows by 64 of k. Otherwise M or N runs along the rows, and the k-tile is one box of 64 k rows for every 64 of
// ROWS. wgmma takes both. SHARES blocks of a cluster that need the same k-tile load one share of it each: some rows of
// every box. A K-major k-tile may also be loaded as several boxes of LINES rows, stored one after another. Of a k-tile
// across k whose ROWS are no multiple of 64, EXACT loads a last box of what remains (REST), which has a tensor map of its
// own; otherwise it is a whole box, and what is beyond the tile is not multiplied.
#pragma once

#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

constexpr int BK = BOX;  // depth of a k-tile

struct KTileRange {
    int begin, end;
};

// The stages, of `depth` k-tiles each, that block `rank` of `splits` multiplies. Without work (K or alpha is 0, or
// fewer stages than splits) it is one stage beyond the matrices, which TMA fills with zeros: every loop runs at least
// once.
__device__ __forceinline__ KTileRange k_tile_range(int K, float& alpha, int depth = 1, int rank = 0, int splits = 1) {
    const int count = K == 0 ? 0 : (K - 1) / (BK * depth) + 1;
    const int begin = static_cast<long long>(count) * rank / splits;
    const int end = static_cast<long long>(count) * (rank + 1) / splits;
    if (K == 0) alpha = 0.0f;  // an infinite alpha must not give NaN
    if (alpha == 0.0f || begin == end) return {count + 1, count + 2};
    return {begin, end};
}

template <int ROWS, bool K_MAJOR_, int SHARES = 1, int LINES = K_MAJOR_ ? ROWS : BK, bool EXACT = false>
struct OperandTile {
    static constexpr bool K_MAJOR = K_MAJOR_;
    static constexpr int BOXES = (ROWS + (K_MAJOR ? LINES : BOX) - 1) / (K_MAJOR ? LINES : BOX);
    static constexpr int BOX_ROWS = LINES / SHARES;
    static constexpr int BYTES = BOXES * LINES * BOX_ROW;
    static constexpr int REST = EXACT && !K_MAJOR && ROWS % 16 == 0 ? ROWS % BOX : 0;  // whole sectors of 32 bytes
    static constexpr int LOADED_BYTES = BYTES - (REST ? LINES * (BOX_ROW - REST * BOX_ROW / BOX) : 0);
    static_assert(LINES % SHARES == 0 && BOX_ROWS <= 256, "shares are equal; a box ends at 256 rows");

    // Requests this block's share of the k-tile at (row, k) of matrix z, for itself or for all blocks in `mask`. `rest` is
    // the map of a narrow last box.
    static __device__ __forceinline__ void load(unsigned tile, const TensorMap& map, unsigned barrier, int row, int k,
                                                int z, int share = 0, unsigned short mask = 0,
                                                const TensorMap* rest = nullptr) {
        const int skip = share * BOX_ROWS;
#pragma unroll
        for (int i = 0; i < BOXES; ++i) {
            const unsigned target = tile + (i * LINES + skip) * BOX_ROW;
            const int x = K_MAJOR ? k : row + i * BOX, y = K_MAJOR ? row + i * LINES + skip : k + skip;
            const TensorMap& box = REST && i == BOXES - 1 ? *rest : map;
            if constexpr (SHARES > 1)
                tma_load_multicast(target, box, barrier, mask, x, y, z);
            else
                tma_load(target, box, barrier, x, y, z);
        }
    }

    // The wgmma descriptor of the 64 rows number `m_tile` and the 16 of k number `step`.
    static __device__ __forceinline__ unsigned long long descriptor(unsigned tile, int m_tile, int step) {
        return matrix_descriptor<K_MAJOR>(tile + m_tile * BOX_BYTES) + step * K_STEP<K_MAJOR>;
    }
};

// The same for a number of rows that is no multiple of 64, as the A of wgmma: zeros follow the last row.
template <int ROWS, bool K_MAJOR_>
struct PaddedTile : OperandTile<ROWS, K_MAJOR_> {
    using Loaded = OperandTile<ROWS, K_MAJOR_>;
    static constexpr int LOADED_BYTES = Loaded::BYTES, BYTES = (ROWS + 63) / 64 * BOX_BYTES;

    // Clears the padding of TILES k-tiles. Called by all THREADS threads of the block; a barrier must follow.
    template <int THREADS, int TILES>
    static __device__ __forceinline__ void clear_padding(unsigned first, unsigned step) {
        if constexpr (BYTES > LOADED_BYTES) {
            for (int i = 0; i < TILES; ++i)
                for (int at = LOADED_BYTES + threadIdx.x * 16; at < BYTES; at += THREADS * 16)
                    store_shared_16(first + i * step + at, make_uint4(0, 0, 0, 0));
            fence_proxy_async();
        }
    }
};
