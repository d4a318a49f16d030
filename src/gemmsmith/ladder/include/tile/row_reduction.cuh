// Reductions over lines (rows of A, columns of B) that several threads share: two values per line, combined first over
// the threads of a warp, then over the warps of a block (in shared memory), then over the blocks of a cluster (in each
// other's shared memory).
//
//     threads --reduce_warp--> a row per warp --reduce_rows--> a block's values --send_row--> a row per block
//     --reduce_rows--> the values of the line
#pragma once

#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"

constexpr unsigned WARPS = THREADS / 32;
constexpr unsigned ACROSS = 16;  // lines of a block, or of a cluster, where the operand is not K-major
static_assert(CLUSTER <= WARPS, "one warp per block to send to");

// Two values of every line of a block, from one warp or from one block of a cluster.
using Row = unsigned[2 * ACROSS];

// In shared memory.
struct ReductionWorkspace {
    Row extremes[WARPS];  // bits of the largest number, and of the smallest but zero; negated, so that a max finds it
    Row counts[WARPS];
    Row block_extremes[CLUSTER], block_counts[CLUSTER];
    unsigned long long barriers[2];  // for the extremes of all blocks, and for their counts
};

__device__ __forceinline__ unsigned larger(unsigned a, unsigned b) { return max(a, b); }
__device__ __forceinline__ unsigned sum(unsigned a, unsigned b) { return a + b; }
using Operator = unsigned (*)(unsigned, unsigned);

// Combines the values of a warp's threads and stores them in the warp's row. Each thread has Lines adjacent lines (1 if
// K-major, else 4); threads of a warp whose numbers are equal modulo Lines have the same ones.
template <Operator combine, int Lines>
__device__ __forceinline__ void reduce_warp(Row (&rows)[WARPS], unsigned (&values)[2][Lines]) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (int v = 0; v < 2; ++v)
#pragma unroll
        for (int i = 0; i < Lines; ++i) {
#pragma unroll
            for (int distance = 16; distance >= Lines; distance /= 2)
                values[v][i] = combine(values[v][i], __shfl_xor_sync(~0u, values[v][i], distance));
            if (lane < Lines) rows[threadIdx.x / 32][v * ACROSS + lane * Lines + i] = values[v][i];
        }
}

// Combines what `rows` rows hold of a line: the rows of the warps that share it, or those of all blocks.
template <Operator combine, bool K_MAJOR>
__device__ __forceinline__ unsigned reduce_rows(const Row* table, unsigned rows, unsigned value, unsigned line) {
    const Row* const begin = table + (K_MAJOR ? line * rows : 0);
    const unsigned column = value * ACROSS + (K_MAJOR ? 0 : line);
    unsigned result = begin[0][column];
#pragma unroll(K_MAJOR ? 1 : WARPS)
    for (unsigned i = 1; i < rows; ++i) result = combine(result, begin[i][column]);
    return result;
}

// Initialises the barriers for send_row. cluster_wait must follow before the first send.
__device__ __forceinline__ void init_reduction_barriers(ReductionWorkspace& workspace) {
    if (threadIdx.x == 0) {
        for (unsigned long long& barrier : workspace.barriers) mbarrier_init(shared_address(&barrier), 1);
        mbarrier_init_fence();
        for (unsigned long long& barrier : workspace.barriers)
            mbarrier_arrive_expect_tx(shared_address(&barrier), CLUSTER * sizeof(Row));
    }
    __syncwarp();
    cluster_arrive_relaxed();  // a release would wait for writes to become visible, and there are none
}

// A warp writes a row into the shared memory of block `rank`, whose barrier counts the bytes.
__device__ __forceinline__ void send_row(Row& row, unsigned long long& barrier, unsigned rank, unsigned value) {
    st_async(shared_address(&row[threadIdx.x % 32]), shared_address(&barrier), rank, value);
}
