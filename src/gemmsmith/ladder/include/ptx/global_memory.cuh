// Accesses to global memory that need an instruction of their own: release, acquire, vector reductions and stores.
#pragma once

// Everything this thread wrote, or observed as written, is visible to a thread that acquires the new value.
__device__ __forceinline__ void store_release(unsigned* target, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(target), "r"(value) : "memory");
}

__device__ __forceinline__ unsigned load_acquire(const unsigned* source) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(source) : "memory");
    return value;
}

// target[i] += x[i], each of the four atomically.
__device__ __forceinline__ void reduce_add_v4(void* target, const float (&x)[4]) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 ::"l"(target), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]) : "memory");
}

// One STG.128. The compiler would split an assignment through a pointer to 2-byte elements into four stores.
__device__ __forceinline__ void store_global_16(void* target, const uint4& x) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 ::"l"(__cvta_generic_to_global(target)), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}
