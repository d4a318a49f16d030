// Stream-K: the tiles of an incomplete last wave are divided along K among all blocks, so that none is idle.
//
// Tiles that fill complete waves of Sharers blocks are data-parallel: one block per tile. The remaining tiles, fewer
// than Sharers, are laid end to end along K and cut into Sharers spans of equal length:
//
//     Sharers = 4, six tiles of 8 k-tiles: blocks 0 to 3 have one tile each, blocks 4 to 7 share the last two
//
//     tile  |        4        |        5        |
//     block |   4    |   5    |   6    |   7    |        spans of 4 k-tiles; a span may end in the next tile
//
// Blocks leave their partial sums in a workspace. The last block to reach a tile adds them in the order of k, whatever
// the order of arrival: the result is the same in every run.
#pragma once

#include "ptx/opaque.cuh"
#include "schedule/flags.cuh"

constexpr unsigned MAX_SHARERS = 1024;  // over all products of a batch: one flag each, and two partial tiles each

// What a block multiplies: `count` k-tiles of a tile, starting with number `first`, then `in_next` of the next tile.
struct WorkUnit {
    unsigned tile;
    int first, count, in_next;
};

template <unsigned Sharers>
struct StreamKTiles {
    unsigned dp_tiles, sk_tiles, k_tiles;  // data-parallel tiles, stream-K tiles; k-tiles per tile
    unsigned sharers;                      // that have work
    unsigned long long length;             // of all stream-K tiles, in k-tiles

    __device__ __forceinline__ StreamKTiles(unsigned tiles, unsigned k_tiles) : k_tiles(k_tiles) {
        sk_tiles = k_tiles > 0 && gridDim.z <= MAX_SHARERS / Sharers ? tiles % Sharers : 0;
        dp_tiles = tiles - sk_tiles;
        length = 1ull * sk_tiles * k_tiles;
        sharers = length < Sharers ? static_cast<unsigned>(length) : Sharers;
    }

    __device__ __forceinline__ WorkUnit work_of_block() const {
        if (blockIdx.x < dp_tiles) return {blockIdx.x, 0, static_cast<int>(k_tiles), 0};
        const unsigned sharer = blockIdx.x - dp_tiles;
        const unsigned long long start = begin(sharer);
        const unsigned first = start % k_tiles, all = begin(sharer + 1) - start, count = min(k_tiles - first, all);
        return {dp_tiles + static_cast<unsigned>(start / k_tiles), static_cast<int>(first), static_cast<int>(count),
                static_cast<int>(all - count)};
    }

    // The k-tile at which a sharer's span begins. It ends where the next one begins.
    __device__ __forceinline__ unsigned long long begin(unsigned sharer) const { return length * sharer / sharers; }

    // The sharer whose span contains a k-tile.
    __device__ __forceinline__ unsigned owner(unsigned long long k_tile) const {
        return static_cast<unsigned>(((k_tile + 1) * sharers - 1) / length);
    }

    // Stores this block's partial sums of a tile to the workspace. The last block to arrive adds those of all sharers
    // and stores the result. `for_each_four(use)` calls `use(f, four)` with a thread's share of the partial sums;
    // `store_four(f, four)` is called with sums 4 f to 4 f + 3 of the Count sums that belong to a thread of the first
    // team. Team * Teams threads call this.
    template <int Team, int Teams, int Count, class ForEach, class Store>
    __device__ __forceinline__ void reduce(unsigned tile, unsigned char* workspace, const ForEach& for_each_four,
                                           const Store& store_four) const {
        const unsigned nth = tile - dp_tiles, team = threadIdx.x / Team;
        const unsigned lowest = owner(1ull * nth * k_tiles), highest = owner((nth + 1ull) * k_tiles - 1);
        // A span is at most one tile long, so a sharer touches at most two tiles. It has two slots for partial sums;
        // the second is for a tile in which its span ends but does not begin. Only the lowest sharer of this tile may
        // have begun before it.
        const unsigned began_before = begin(lowest) < 1ull * nth * k_tiles;
        const auto partial_of = [&](unsigned sharer) {
            const unsigned slot = (blockIdx.z * sharers + sharer) * 2 + (sharer == lowest ? began_before : 0);
            const size_t at = 1ull * slot * (Team * Count) + threadIdx.x % Team;
            return reinterpret_cast<float*>(workspace + 4 * MAX_SHARERS) + at;
        };
        float* const own = partial_of(blockIdx.x - dp_tiles);
        for_each_four([&](int f, const float* four) {
#pragma unroll
            for (int i = 0; i < 4; ++i) own[(f * 4 + i) * Team] = four[i];
        });
        auto* const counter = reinterpret_cast<unsigned*>(workspace) + blockIdx.z * sk_tiles + nth;
        __shared__ unsigned word;
        if (!is_last_block(counter, highest - lowest + 1, &word)) return;
        // Loads have a long latency and there are few of them, so those of several sharers are in flight together.
        constexpr int FOURS = Count / 4, EACH = FOURS > Teams ? FOURS / Teams : 1, STEP = EACH < 4 ? EACH : 4;
        constexpr int COUNT = STEP * 4, AHEAD = 64 / COUNT;
#pragma unroll 1
        for (int begin = team * STEP; begin < FOURS; begin += Teams * STEP) {
            float total[COUNT];
#pragma unroll 1
            for (unsigned sharer = lowest; sharer <= highest; sharer += AHEAD) {
                float loaded[AHEAD][COUNT];
#pragma unroll
                for (int next = 0; next < AHEAD; ++next) {
                    const float* const partial = partial_of(min(sharer + next, highest)) + begin * 4 * Team;
#pragma unroll
                    for (int i = 0; i < COUNT; ++i) loaded[next][i] = __ldcg(&partial[i * Team]);  // L1 may be stale
                }
#pragma unroll
                for (int next = 0; next < AHEAD; ++next)
#pragma unroll
                    for (int i = 0; i < COUNT; ++i)
                        if (sharer + next == lowest)
                            total[i] = loaded[next][i];
                        else if (sharer + next <= highest)
                            total[i] = __fadd_rn(total[i], loaded[next][i]);
            }
#pragma unroll
            for (int i = 0; i < STEP; ++i) store_four(begin + i, &total[i * 4]);
        }
    }
};
