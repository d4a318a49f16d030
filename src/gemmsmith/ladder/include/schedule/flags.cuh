// Flags in global memory, by which a block of the grid tells another that its numbers are there.
#pragma once

#include "tile/vector.cuh"

// What this thread has written or seen written is visible to whoever sees the flag raised.
__device__ __forceinline__ void raise(unsigned* flag) {
    asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}

// Leaves the flag as it was before.
__device__ __forceinline__ void wait_and_lower(unsigned* flag) {
    unsigned raised = 0;
    while (!raised) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(raised) : "l"(flag) : "memory");
    *flag = 0;
}

// Flags lie at the beginning of a workspace, in whole kilobytes; sums follow.
__device__ __forceinline__ unsigned flag_bytes(unsigned flags) { return (flags * 4 + 1023) / 1024 * 1024; }

// Of the `blocks` blocks that come here with the same counter, which begins at 0: whether this is the last. What the
// others wrote to global memory before, it may read after. All threads of the block must call it; `word` is shared
// memory that nobody else uses.
__device__ __forceinline__ bool last_to_come(unsigned* counter, unsigned blocks, volatile unsigned* word) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        *word = atomicAdd(counter, 1);
        __threadfence();
    }
    __syncthreads();
    return *word == blocks - 1;
}

// Past the first-level cache, which may hold what was there before.
__device__ __forceinline__ Vec<float, 4> load_fresh(const Vec<float, 4>* from) {
    const float4 loaded = __ldcg(reinterpret_cast<const float4*>(from));
    return {loaded.x, loaded.y, loaded.z, loaded.w};
}

__device__ __forceinline__ void add_atomically(Vec<float, 4>* to, const Vec<float, 4>& x) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 ::"l"(to), "f"(x.at[0]), "f"(x.at[1]), "f"(x.at[2]), "f"(x.at[3]) : "memory");
}
