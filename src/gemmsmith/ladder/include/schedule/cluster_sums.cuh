// Blocks of a cluster multiply the same tile, each over a part of K; then each adds up a share of the tile.
//
//     block 0   [ k 0 ... ]   -> partial sums -> its own shared memory   \/   -> adds its share of all, and stores it
//     block 1   [ ... K-1 ]   -> partial sums -> its own shared memory   /\   -> adds its share of all, and stores it
//
// Partial sums are added in the order of k, so the result does not depend on timing. The blocks of a cluster run at the
// same time, so a cluster barrier is enough: no counters, and nothing to set to 0 before.
#pragma once

#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/st_async.cuh"
#include "tile/vector.cuh"
#include "tile/warpgroup.cuh"

// Adds up the accumulators of the consumer warpgroups with the same number in the cluster's Parts blocks, and calls
// `store(i, sum)` with this block's share of the vectors: i is its index among those of a thread. `buffer` is shared
// memory for the accumulators of all Consumers warpgroups, which no thread of this block uses any more. `stride` is the
// distance of the Parts blocks' ranks, `first` the rank of the first. All threads of the cluster must call cluster_sync
// twice: once after their last use of `buffer`, once before it is used again.
template <int Parts, int Consumers, int Cols, int MTiles, class Store>
__device__ __forceinline__ void add_in_cluster(unsigned buffer, int warpgroup, int part, int first, int stride,
                                               const float (&acc)[MTiles][Cols / 2], const Store& store) {
    constexpr int FOURS = MTiles * Cols / 8;
    const unsigned sums = buffer + ((warpgroup * FOURS) * WARPGROUP_THREADS + threadIdx.x % WARPGROUP_THREADS) * 16;
    named_barrier_sync(Consumers + 1, Consumers * WARPGROUP_THREADS);  // all wgmmas have read the stages
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        const float* const four = &acc[i / (Cols / 8)][i % (Cols / 8) * 4];
        store_shared_16(sums + i * (WARPGROUP_THREADS * 16),
                        make_uint4(__float_as_uint(four[0]), __float_as_uint(four[1]), __float_as_uint(four[2]),
                                   __float_as_uint(four[3])));
    }
    fence_proxy_async();  // TMA may write there next
    cluster_sync();
    constexpr int TOGETHER = 16 / Parts;  // vectors in flight together, of all parts
    const int end = FOURS * (part + 1) / Parts;
    for (int from = FOURS * part / Parts; from < end; from += TOGETHER) {
        Vec<float, 4> parts[TOGETHER][Parts];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i)
#pragma unroll
            for (int p = 0; p < Parts; ++p)
                if (from + i < end)
                    parts[i][p] = load_cluster_16(sums + (from + i) * (WARPGROUP_THREADS * 16), first + p * stride);
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
#pragma unroll
            for (int p = 1; p < Parts; ++p)
#pragma unroll
                for (int e = 0; e < 4; ++e) parts[i][0].at[e] = __fadd_rn(parts[i][0].at[e], parts[i][p].at[e]);
            if (from + i < end) store(from + i, parts[i][0]);
        }
    }
    cluster_sync();
}

// The same where partial sums are sent, not fetched: each block stores what is not its share into the memory of the
// block whose share it is, which waits for them alone. Nobody waits before sending, because that memory is for sums only.
template <int Parts, int Consumers, int Fours>
struct SentSums {
    static constexpr int MOST = (Fours + Parts - 1) / Parts;  // vectors of a thread in a share
    static constexpr int BYTES = (Parts - 1) * Consumers * MOST * WARPGROUP_THREADS * 16;

    unsigned buffer, barrier;  // shared addresses: of BYTES bytes, and of an mbarrier for each consumer
    int warpgroup, part, first, stride;

    // The share that vector number i is in, and the first vector of a share.
    static __device__ constexpr int share_of(int i) { return ((i + 1) * Parts - 1) / Fours; }
    static __device__ constexpr int begin_of(int share) { return Fours * share / Parts; }
    // Where block `share` has vector number i of part `from`.
    __device__ __forceinline__ unsigned at(int share, int from, int i) const {
        const int slot = from - (from > share);
        return buffer + (((slot * Consumers + warpgroup) * MOST + i - begin_of(share)) * WARPGROUP_THREADS +
                         threadIdx.x % WARPGROUP_THREADS) * 16;
    }

    static __device__ __forceinline__ Vec<float, 4> received(unsigned address) {
        const uint4 four = load_shared_16(address);
        return reinterpret_cast<const Vec<float, 4>&>(four);
    }

    // Called by one thread of the warpgroup before the others' sums of a tile are awaited.
    __device__ __forceinline__ void expect() const {
        const int count = begin_of(part + 1) - begin_of(part);
        mbarrier_arrive_expect_tx(barrier + 8 * warpgroup, (Parts - 1) * count * WARPGROUP_THREADS * 16);
    }

    // As add_in_cluster; `parity` is that of the tile. `added()` is called when all sums are in registers (acc), before
    // they are stored: the memory for sums may then be used again.
    template <int Cols, int MTiles, class Added, class Store>
    __device__ __forceinline__ void add(float (&acc)[MTiles][Cols / 2], unsigned parity, const Added& added,
                                        const Store& store) const {
        const auto four = [&](int i) -> float(&)[4] {
            return *reinterpret_cast<float(*)[4]>(&acc[i / (Cols / 8)][i % (Cols / 8) * 4]);
        };
#pragma unroll
        for (int i = 0; i < Fours; ++i)
            if (share_of(i) != part)
                st_async_16(at(share_of(i), part, i), barrier + 8 * warpgroup, first + share_of(i) * stride, four(i));
        mbarrier_wait(barrier + 8 * warpgroup, parity);
#pragma unroll
        for (int i = 0; i < Fours; ++i)
            if (share_of(i) == part) {
                Vec<float, 4> sum;
#pragma unroll
                for (int p = 0; p < Parts; ++p) {
                    const Vec<float, 4> next = p == part ? *reinterpret_cast<const Vec<float, 4>*>(&four(i))
                                                         : received(at(share_of(i), p, i));
#pragma unroll
                    for (int e = 0; e < 4; ++e) sum.at[e] = p == 0 ? next.at[e] : __fadd_rn(sum.at[e], next.at[e]);
                }
#pragma unroll
                for (int e = 0; e < 4; ++e) four(i)[e] = sum.at[e];
            }
        added();
#pragma unroll
        for (int i = 0; i < Fours; ++i)
            if (share_of(i) == part) store(i, *reinterpret_cast<const Vec<float, 4>*>(&four(i)));
    }
};
