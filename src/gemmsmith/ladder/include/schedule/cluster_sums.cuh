// Blocks of a cluster multiply the same tile, each over a part of K; then each adds up a share of the tile.
//
//     block 0   [ k 0 ... ]   -> partial sums -> its own shared memory   \/   -> adds its share of all, and stores it
//     block 1   [ ... K-1 ]   -> partial sums -> its own shared memory   /\   -> adds its share of all, and stores it
//
// Partial sums are added in the order of k, so the result does not depend on timing. The blocks of a cluster run at the
// same time, so a cluster barrier is enough: no counters, and nothing to set to 0 before.
#pragma once

#include "ptx/cluster.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/shared_memory.cuh"
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
