// The numbers of this block and thread, read anew: what is worked out from them need not be kept from an earlier use.
//
// The compiler recognises blockIdx.x and what follows from it, and keeps that in registers across a loop that has none to
// spare. Volatile, these are not recognised.
#pragma once

__device__ __forceinline__ unsigned block_again() {
    unsigned number;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(number));
    return number;
}

__device__ __forceinline__ unsigned thread_again() {
    unsigned number;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
    return number;
}
