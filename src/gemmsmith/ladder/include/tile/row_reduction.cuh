// Where those who have parts of the same lines put together what they found, two values a line: the threads of a warp,
// the warps of a block (shared memory), the blocks of a cluster (each other's shared memory).
//
//     threads - meet -> rows of a block's warps - over -> its values - tell -> rows of a cluster's blocks - over -> all
#pragma once

#include "ptx/mbarrier.cuh"

constexpr unsigned WARPS = THREADS / 32;
constexpr unsigned ACROSS = 16;  // lines of a block, or of a cluster, where they lie across
static_assert(CLUSTER <= WARPS, "a warp for each block that is to be told");

// Two values of every line of a block: as one warp has them, or one block of a cluster.
using Row = unsigned[2 * ACROSS];

struct Met {
    Row ends[WARPS];  // bits of the largest number, and of the smallest but zero: negated, so that the largest counts
    Row counts[WARPS];
    Row ends_of_blocks[CLUSTER], counts_of_blocks[CLUSTER];
    unsigned long long told[2];  // barriers: one for the ends of all blocks, one for their counts
};

__device__ __forceinline__ unsigned larger(unsigned a, unsigned b) { return max(a, b); }
__device__ __forceinline__ unsigned sum(unsigned a, unsigned b) { return a + b; }
using Join = unsigned (*)(unsigned, unsigned);

// What each thread found of its lines, as what its warp did. Threads of a warp that are less than `Lines` apart have
// different ones, `Lines` neighbours each: 1 where k runs along the rows, else 4.
template <Join join, int Lines>
__device__ __forceinline__ void meet(Row (&rows)[WARPS], unsigned (&values)[2][Lines]) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (int v = 0; v < 2; ++v)
#pragma unroll
        for (int i = 0; i < Lines; ++i) {
#pragma unroll
            for (int distance = 16; distance >= Lines; distance /= 2)
                values[v][i] = join(values[v][i], __shfl_xor_sync(~0u, values[v][i], distance));
            if (lane < Lines) rows[threadIdx.x / 32][v * ACROSS + lane * Lines + i] = values[v][i];
        }
}

// What all of `rows` have of a line: those of a block's warps that share it, or those of all blocks.
template <Join join, bool ALONG>
__device__ __forceinline__ unsigned over(const Row* table, unsigned rows, unsigned value, unsigned line) {
    const Row* const begin = table + (ALONG ? line * rows : 0);
    const unsigned place = value * ACROSS + (ALONG ? 0 : line);
    unsigned joined = begin[0][place];
#pragma unroll(ALONG ? 1 : WARPS)
    for (unsigned i = 1; i < rows; ++i) joined = join(joined, begin[i][place]);
    return joined;
}

// Barriers for what the blocks of a cluster tell each other, once all of them have come here (cluster_wait).
__device__ __forceinline__ void start_telling(Met& met) {
    if (threadIdx.x == 0) {
        for (unsigned long long& barrier : met.told) barrier_init(shared_address(&barrier), 1);
        barrier_init_done();
        for (unsigned long long& barrier : met.told) barrier_expect(shared_address(&barrier), CLUSTER * sizeof(Row));
    }
    __syncwarp();
    // Not cluster_arrive(), which first waits until what was written before is visible to all: nothing was.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// A warp writes a row into the shared memory of a block of the cluster, counted in bytes by that block's barrier.
__device__ __forceinline__ void tell(Row& row, unsigned long long& barrier, unsigned rank, unsigned value) {
    asm volatile(
        "{\n.reg .b32 there, counter;\n"
        "mapa.shared::cluster.u32 there, %0, %2;\nmapa.shared::cluster.u32 counter, %1, %2;\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [there], %3, [counter];\n}"
        ::"r"(shared_address(&row[threadIdx.x % 32])), "r"(shared_address(&barrier)), "r"(rank), "r"(value) : "memory");
}
