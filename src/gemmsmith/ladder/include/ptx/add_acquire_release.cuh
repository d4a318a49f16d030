// A counter in global memory that threads of different blocks meet at.
#pragma once

// atomicAdd with release and acquire semantics at GPU scope. Earlier writes of this thread are visible to a thread that
// acquires the new value; writes that were released by earlier additions are visible to this thread.
__device__ __forceinline__ unsigned add_acquire_release(unsigned* target, unsigned value) {
    unsigned before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(target), "r"(value) : "memory");
    return before;
}
