// Loads from shared memory by address, and stores, which stay where they are between barriers.
#pragma once

__device__ __forceinline__ unsigned short load_shared_2(unsigned address) {
    unsigned short x;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(address) : "memory");
    return x;
}

__device__ __forceinline__ unsigned load_shared_4(unsigned address) {
    unsigned word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

__device__ __forceinline__ void store_shared_4(unsigned address, unsigned word) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

__device__ __forceinline__ uint4 load_shared_16(unsigned address) {
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(address)
                 : "memory");
    return x;
}

__device__ __forceinline__ void store_shared_16(unsigned address, uint4 chunk) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 ::"r"(address), "r"(chunk.x), "r"(chunk.y), "r"(chunk.z), "r"(chunk.w) : "memory");
}
