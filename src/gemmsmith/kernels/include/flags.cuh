// Flags in global memory, by which a block of the grid tells another that its numbers are there.
#pragma once

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
