// A counter in global memory that threads of different blocks meet at.
#pragma once

// Adds to the word and returns what it was. What this thread wrote, or observed as written, is visible to whoever
// acquires the word from now on; what was released by additions before is visible to this thread.
__device__ __forceinline__ unsigned add_acquire_release(unsigned* target, unsigned value) {
    unsigned before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(target), "r"(value) : "memory");
    return before;
}
