// Tiles that many blocks share, each a part of K, so that none is idle while others still have a tile of their own.
//
// Of `tiles` tiles, as many as fill whole waves of Sharers blocks have a block each. What is left, fewer than Sharers
// tiles, is laid end to end, slices of K behind slices, and cut into Sharers equal lengths:
//
//     Sharers = 4, six tiles of 8 slices: blocks 0 to 3 have a tile each, blocks 4 to 7 share the last two
//
//     tile  |        4        |        5        |
//     block |   4    |   5    |   6    |   7    |        lengths of 4 slices; a length may end in the next tile
//
// Blocks leave their sums in a workspace. The last to come to a tile adds them in the order of k, whoever came when:
// the same bits every time.
#pragma once

#include "schedule/flags.cuh"

constexpr unsigned MOST_SHARERS = 1024;  // of all products of a batch: flags, and twice as many parts of sums

// The same number, but nobody knows: what follows from it is not kept in registers from an earlier time.
__device__ __forceinline__ unsigned anew(unsigned x) {
    asm volatile("" : "+r"(x));
    return x;
}

// A thread's sums one after another. Others get them one by one: four in neighbouring registers would tie the
// compiler's hands in the loop that multiplies.
template <int Rows, int Cols, class Use>
__device__ __forceinline__ void for_each_sum(float (&sums)[Rows][Cols], const Use& use) {
#pragma unroll
    for (int i = 0; i < Rows * Cols; ++i) use(sums[i / Cols][i % Cols], i);
}

// What a block multiplies: `count` slices of a tile from the first on, then `in_next` of the tile after it.
struct Part {
    unsigned tile;
    int first, count, in_next;
};

template <unsigned Sharers>
struct SharedTiles {
    unsigned whole, shared, slices;  // tiles with a block of their own, the others; slices of each
    unsigned sharers;                // that have something to do
    unsigned long long length;       // of all shared tiles, in slices

    __device__ __forceinline__ SharedTiles(unsigned tiles, unsigned slices) : slices(slices) {
        shared = slices > 0 && gridDim.z <= MOST_SHARERS / Sharers ? tiles % Sharers : 0;
        whole = tiles - shared;
        length = 1ull * shared * slices;
        sharers = length < Sharers ? static_cast<unsigned>(length) : Sharers;
    }

    __device__ __forceinline__ Part part_of_block() const {
        if (blockIdx.x < whole) return {blockIdx.x, 0, static_cast<int>(slices), 0};
        const unsigned sharer = blockIdx.x - whole;
        const unsigned long long start = begin(sharer);
        const unsigned first = start % slices, all = begin(sharer + 1) - start, count = min(slices - first, all);
        return {whole + static_cast<unsigned>(start / slices), static_cast<int>(first), static_cast<int>(count),
                static_cast<int>(all - count)};
    }

    // Where a sharer's length begins; the next one's begins where it ends.
    __device__ __forceinline__ unsigned long long begin(unsigned sharer) const { return length * sharer / sharers; }

    // Whose length a slice is in.
    __device__ __forceinline__ unsigned owner(unsigned long long slice) const {
        return static_cast<unsigned>(((slice + 1) * sharers - 1) / length);
    }

    // Leaves this block's sums of a tile in the workspace. The last block to come adds up everyone's and stores them:
    // `store_four(i, j, four)` is called for sums i, j to i, j + 3 of a thread. Teams times Team threads call this; the
    // first Team have the sums.
    template <int Team, int Teams, int Rows, int Cols, class Store>
    __device__ __forceinline__ void add_up(unsigned tile, float (&sums)[Rows][Cols], unsigned char* workspace,
                                           const Store& store_four) const {
        const unsigned nth = tile - whole, team = threadIdx.x / Team;
        const unsigned lowest = owner(1ull * nth * slices), highest = owner((nth + 1ull) * slices - 1);
        // A sharer's length is at most a tile's: it touches two at most, and has two places for sums, the second for
        // the tile that it ends in but did not begin in. Of those here only the lowest may have begun before.
        const unsigned began_before = begin(lowest) < 1ull * nth * slices;
        const auto part_of = [&](unsigned sharer) {
            const unsigned place = (blockIdx.z * sharers + sharer) * 2 + (sharer == lowest ? began_before : 0);
            const size_t at = 1ull * place * (Team * Rows * Cols) + threadIdx.x % Team;
            return reinterpret_cast<float*>(workspace + 4 * MOST_SHARERS) + at;
        };
        float* const own = part_of(blockIdx.x - whole);
        if (team == 0) for_each_sum(sums, [&](float sum, int i) { own[i * Team] = sum; });
        auto* const counter = reinterpret_cast<unsigned*>(workspace) + blockIdx.z * shared + nth;
        __shared__ unsigned word;
        if (!last_to_come(counter, highest - lowest + 1, &word)) return;
        // Not in the registers of `sums`: where those lie is for the loop that multiplies to say. Loads take long and
        // sums are few, so those of several sharers are under way together.
        constexpr int FOURS = Rows * Cols / 4, EACH = FOURS > Teams ? FOURS / Teams : 1, AT_ONCE = EACH < 4 ? EACH : 4;
        constexpr int SUMS = AT_ONCE * 4, AHEAD = 64 / SUMS;
#pragma unroll 1
        for (int begin = team * AT_ONCE; begin < FOURS; begin += Teams * AT_ONCE) {
            float total[SUMS];
#pragma unroll 1
            for (unsigned sharer = lowest; sharer <= highest; sharer += AHEAD) {
                float loaded[AHEAD][SUMS];
#pragma unroll
                for (int next = 0; next < AHEAD; ++next) {
                    const float* const part = part_of(min(sharer + next, highest)) + begin * 4 * Team;
#pragma unroll
                    for (int i = 0; i < SUMS; ++i) loaded[next][i] = __ldcg(&part[i * Team]);  // past the first level
                }
#pragma unroll
                for (int next = 0; next < AHEAD; ++next)
#pragma unroll
                    for (int i = 0; i < SUMS; ++i)
                        if (sharer + next == lowest)
                            total[i] = loaded[next][i];
                        else if (sharer + next <= highest)
                            total[i] = __fadd_rn(total[i], loaded[next][i]);
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i)
                store_four((begin + i) * 4 / Cols, (begin + i) * 4 % Cols, &total[i * 4]);
        }
    }
};
