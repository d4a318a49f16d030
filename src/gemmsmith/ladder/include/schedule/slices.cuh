// Slices of K: several blocks multiply the same tile, each over a slice of K; then each adds up a part of the tile.
//
//     slice 0   [ k 0 ... ]   -> sums of the others' parts -> workspace   \/   -> adds its own part of all, and stores it
//     slice 1   [ ... K-1 ]   -> sums of the others' parts -> workspace   /\   -> adds its own part of all, and stores it
//
// Partial sums are added in the order of k, so the result does not depend on timing. What a slice has of its own part
// stays in registers, where they suffice. The blocks of a tile wait for each other, but not for ever: another kernel may
// hold the SMs that the rest of them need. One that has waited long writes that as well, leaves its part to the last that
// arrives, and ends.
#pragma once

#include "ptx/add_acquire_release.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/shared_memory.cuh"
#include "schedule/flags.cuh"
#include "tile/warpgroup.cuh"

// The workspace: a counter for each warpgroup's part of a tile, which must be 0, then the partial sums. Vectors of four
// accumulators of adjacent threads are adjacent.
struct SliceWorkspace {
    unsigned* counters;
    Vec<float, 4>* sums;

    __device__ __forceinline__ SliceWorkspace(unsigned char* workspace, unsigned count)
        : counters(reinterpret_cast<unsigned*>(workspace)),
          sums(reinterpret_cast<Vec<float, 4>*>(workspace + flag_bytes(count))) {}
};

// Where cluster number c of 64 clusters of two starts on an idle H200: they go round the GPCs, each of which gets eight.
// Clusters of GPC g have the numbers 8 g to 8 g + 7 here. Elsewhere this is but another order.
__device__ __forceinline__ unsigned numbered_by_gpc(unsigned c) {
    if (c < 4) return c;
    const unsigned i = c - 4, j = c - 36;
    if (i < 32) return i % 8 * 8 + i / 8 + (i % 8 == 0 ? 4 : 0);
    return c < 64 ? (1 + j % 7) * 8 + 4 + j / 7 : c;
}

// How many of the first n of up to 64 clusters come before cluster c in that order. All threads of a warp must call it.
__device__ __forceinline__ unsigned rank_by_gpc(unsigned c, unsigned n) {
    const auto before = [&](unsigned other) {
        return __popc(__ballot_sync(0xFFFFFFFF, other < n && numbered_by_gpc(other) < numbered_by_gpc(c)));
    };
    return before(threadIdx.x % 32) + before(threadIdx.x % 32 + 32);
}

// Tiles in that order, which clusters of two take in turns: those of a GPC have some that follow each other. `c` is the
// number of the caller's cluster, t of a tile.
struct TilesByGpc {
    unsigned c, tiles, clusters, in_turn, in_last_turn;

    __device__ __forceinline__ TilesByGpc(unsigned c_, unsigned tiles_, unsigned clusters_)
        : c(c_), tiles(tiles_), clusters(clusters_), in_turn(clusters_ < 64 ? c_ : numbered_by_gpc(c_)) {
        const unsigned last = (tiles - 1) % clusters + 1;
        in_last_turn = last < 64 ? rank_by_gpc(c, last) : in_turn;
    }
    __device__ __forceinline__ unsigned operator()(unsigned t) const {
        const unsigned first = t - c;
        return first + (tiles - first <= clusters ? in_last_turn : in_turn);
    }
};

// How slices of tiles are numbered (Order): 0: those of the first slice of all tiles, then those of the second ...; 1: all
// slices of the first tile, then those of the second ...; 2: as 0, but by GPC where there are 64 clusters of two. SMs of a
// GPC that read the same lines at the same time share one request to the L2, so the tiles of a slice should share a GPC.
// Blocks wait for each other, so every slice must have its own cluster; where there are too few, tiles have one slice.
template <int Most, int Order = 0>
struct Slices {
    unsigned tiles, count;
    bool by_gpc;

    __device__ __forceinline__ Slices(unsigned tiles_, unsigned clusters)
        : tiles(tiles_), count(tiles_ * Most <= clusters ? Most : 1),
          by_gpc(Order == 2 && clusters == 64 && gridDim.x == 128) {}
    __device__ __forceinline__ unsigned tile(unsigned t) const {
        if (Most == 1 || count == 1) return t;
        return Order == 1 ? t / count : (by_gpc ? numbered_by_gpc(t) : t) % tiles;
    }
    __device__ __forceinline__ unsigned slice(unsigned t) const {
        if (Most == 1 || count == 1) return 0;
        return Order == 1 ? t % count : (by_gpc ? numbered_by_gpc(t) : t) / tiles;
    }
};

// Without slices: whole tiles, by GPC where there are clusters of two.
template <>
struct Slices<1, 2> {
    static constexpr unsigned count = 1;
    TilesByGpc tile;

    __device__ __forceinline__ Slices(unsigned tiles, unsigned clusters)
        : tile(blockIdx.x / (gridDim.x / clusters), tiles, clusters) {}
    static __device__ __forceinline__ unsigned slice(unsigned) { return 0; }
};

// The word that the warpgroups of a tile meet at: how many have arrived, and above that a bit for each that left.
constexpr unsigned ARRIVED = 256, LEFT = 256;
constexpr int MOST_POLLS = 2048;  // about a millisecond

// Arrives at `word`, and waits until all `slices` warpgroups have. Returns which parts of the tile the caller is to add, a
// bit for each: its own; those of warpgroups that left, too, if it is the last. None: it has waited long.
__device__ __forceinline__ unsigned parts_to_add(unsigned* word, int slice, int slices) {
    const unsigned own = 1u << slice, before = add_acquire_release(word, 1);
    if (before % ARRIVED == slices - 1) return before / LEFT | own;
    for (int polls = 0; polls < MOST_POLLS; ++polls)
        if (load_acquire(word) % ARRIVED == slices) return own;
    return 0;
}

// Leaves the caller's part to the last, unless that has arrived: it reads who has left as it arrives. Returns which parts
// the caller is to add after all.
__device__ __forceinline__ unsigned parts_after_leaving(unsigned* word, int slice, int slices) {
    return add_acquire_release(word, LEFT << slice) % ARRIVED == slices ? 1u << slice : 0;
}

// How a thread's Fours vectors are divided among Slices parts.
template <int Slices, int Fours>
struct Parts {
    static constexpr int MOST = (Fours + Slices - 1) / Slices;
    // Whether a slice holds its own part: on an H200 2 to 10 % less time with two slices, 4 % more with eight under the cap.
    static constexpr bool HELD = Slices <= 4 && Fours % Slices == 0 && Fours <= 16;
    static __device__ constexpr int begin_of(int part) { return Fours * part / Slices; }
    static __device__ constexpr int part_of(int i) { return ((i + 1) * Slices - 1) / Fours; }
};

// Adds up part number `part` of a thread's Fours vectors of `slices` slices, and calls `store(i, sum)` for each. InFlight
// vectors fit into registers. Those of slice number `held` are in `mine`, not in the workspace.
template <int Slices, int Fours, int InFlight, class Store>
__device__ __forceinline__ void add_part(const Vec<float, 4>* sums, int part, int slices, int held,
                                         const Vec<float, 4> (&mine)[Parts<Slices, Fours>::MOST], const Store& store) {
    using Of = Parts<Slices, Fours>;
    // Loads of several vectors are in flight together: one alone takes a microsecond.
    constexpr int FIT = InFlight > Slices ? InFlight / Slices : 1, TOGETHER = Of::MOST < FIT ? Of::MOST : FIT;
    const int begin = Of::begin_of(part), count = Of::begin_of(part + 1) - begin;
#pragma unroll(Of::HELD ? Of::MOST : 1)  // `mine` are registers
    for (int first = 0; first < Of::MOST; first += TOGETHER) {
        Vec<float, 4> read[TOGETHER][Slices];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i)
#pragma unroll
            for (int s = 0; s < Slices; ++s)
                if (first + i < count && s < slices && s != held)
                    read[i][s] = load_from_l2(&sums[(s * Fours + begin + first + i) * WARPGROUP_THREADS]);
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
#pragma unroll
            for (int s = 0; s < Slices; ++s)
                if (first + i < Of::MOST && s == held) read[i][s] = mine[first + i];
#pragma unroll
            for (int s = 1; s < Slices; ++s)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (s < slices) read[i][0].at[e] = __fadd_rn(read[i][0].at[e], read[i][s].at[e]);
            if (first + i < count) store(begin + first + i, read[i][0]);
        }
    }
}

// Adds up the accumulators of the `slices` warpgroups that call this with the same `number`, and calls `store(i, sum)`
// with a part of the vectors: i is its index among those of a thread. There are Slices, or only one. `shared` is the
// address of a word of shared memory that nothing else uses; InFlight vectors fit into a thread's registers.
template <int Slices, int Cols, int InFlight, int MTiles, class Store>
__device__ __forceinline__ void add_slices(const SliceWorkspace& workspace, unsigned number, int slice, int slices,
                                           int barrier, unsigned shared, const float (&acc)[MTiles][Cols / 2],
                                           const Store& store) {
    constexpr int FOURS = MTiles * Cols / 8;
    using Of = Parts<Slices, FOURS>;
    const int thread = threadIdx.x % WARPGROUP_THREADS;
    unsigned* const counter = workspace.counters + number;
    Vec<float, 4>* const sums =
        workspace.sums + static_cast<size_t>(number) * (Slices * FOURS * WARPGROUP_THREADS) + thread;
    const auto write = [&](int i, const Vec<float, 4>& four) { sums[(slice * FOURS + i) * WARPGROUP_THREADS] = four; };
    const int own = Of::HELD && slices > 1 ? slice : -1;  // the part that is not written
    Vec<float, 4> mine[Of::MOST];
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        const auto& four = *reinterpret_cast<const Vec<float, 4>*>(&acc[i / (Cols / 8)][i % (Cols / 8) * 4]);
        if (Of::part_of(i) == own)
            mine[i - Of::begin_of(Of::part_of(i))] = four;
        else
            write(i, four);
    }
    // All have written; one thread releases that for the warpgroup, and acquires for all of it what `ask` tells.
    const auto parts_by = [&](const auto& ask) {
        named_barrier_sync(barrier, WARPGROUP_THREADS);
        if (thread == 0) store_shared_4(shared, ask(counter, slice, slices));
        named_barrier_sync(barrier, WARPGROUP_THREADS);
        return load_shared_4(shared);
    };
    unsigned parts = slices == 1 ? (1u << Slices) - 1 : parts_by(parts_to_add);
    if (parts == 0) {  // it leaves
#pragma unroll
        for (int i = 0; i < Of::MOST; ++i)
            if (own >= 0 && Of::begin_of(own) + i < Of::begin_of(own + 1)) write(Of::begin_of(own) + i, mine[i]);
        parts = parts_by(parts_after_leaving);
    }
    for (; parts != 0; parts &= parts - 1) {
        const int part = __ffs(parts) - 1;
        add_part<Slices, FOURS, InFlight>(sums, part, slices, part == own ? own : -1, mine, store);
    }
}
