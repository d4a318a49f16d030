// One thread of a warp.
#pragma once

// True in one thread of the calling warp, all of whose threads call this. The compiler knows that it is one, so what this
// thread alone issues (TMA) is not in a loop over threads.
__device__ __forceinline__ bool elected() {
    unsigned chosen;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(chosen));
    return chosen;
}
