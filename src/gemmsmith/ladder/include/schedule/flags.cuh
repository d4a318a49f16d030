// Synchronisation between blocks of the grid: flags and counters in global memory, and reductions through a workspace.
#pragma once

#include "ptx/global_memory.cuh"
#include "tile/vector.cuh"

// What this thread wrote, or observed as written, is visible to a thread that sees the flag set.
__device__ __forceinline__ void set_flag(unsigned* flag) { store_release(flag, 1); }

// Waits for the flag, then resets it to 0.
__device__ __forceinline__ void wait_and_reset_flag(unsigned* flag) {
    while (!load_acquire(flag)) {
    }
    *flag = 0;
}

// Flags are at the start of a workspace and take whole kilobytes; partial sums follow.
__device__ __forceinline__ unsigned flag_bytes(unsigned flags) { return (flags * 4 + 1023) / 1024 * 1024; }

// Whether this is the last of the `blocks` blocks that call this with the same counter, which starts at 0. The last
// block may read what the others wrote to global memory before. All threads of the block must call it; `word` is shared
// memory that is not used for anything else.
__device__ __forceinline__ bool is_last_block(unsigned* counter, unsigned blocks, volatile unsigned* word) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        *word = atomicAdd(counter, 1);
        __threadfence();
    }
    __syncthreads();
    return *word == blocks - 1;
}

// Loads from L2: L1 may hold an old value.
__device__ __forceinline__ Vec<float, 4> load_from_l2(const Vec<float, 4>* from) {
    const float4 loaded = __ldcg(reinterpret_cast<const float4*>(from));
    return {loaded.x, loaded.y, loaded.z, loaded.w};
}

__device__ __forceinline__ void atomic_add(Vec<float, 4>* to, const Vec<float, 4>& x) { reduce_add_v4(to, x.at); }
