// cp.async: copies from global to shared memory that bypass registers and run while the thread computes.
//
// Copies are collected in groups. cp_async_commit closes a thread's current group. cp_async_wait<Pending> returns once
// at most its Pending newest groups are in flight. Both cover only the thread's own copies: a barrier must follow the
// wait before a thread reads what other threads copied.
#pragma once

#include "ptx/shared_memory.cuh"

// 16 bytes, both sides aligned to 16. .cg bypasses L1: data that goes to shared memory is not read from L1 again.
__device__ __forceinline__ void cp_async_16(unsigned shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
__device__ __forceinline__ void cp_async_16(void* shared, const void* global) {
    cp_async_16(shared_address(shared), global);
}

__device__ __forceinline__ void cp_async_4(unsigned shared, const void* global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(global) : "memory");
}

// The first `bytes` bytes come from global memory, the rest is filled with zeros. The source must be a legal address
// even for bytes = 0, when nothing is read.
__device__ __forceinline__ void cp_async_16_or_zero(unsigned shared, const void* global, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_4_or_zero(unsigned shared, const void* global, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_4_or_zero(void* shared, const void* global, bool valid) {
    cp_async_4_or_zero(shared_address(shared), global, valid ? 4 : 0);
}

// The same with a hint to fetch 128 bytes into L2.
__device__ __forceinline__ void cp_async_16_l2_128(unsigned shared, const void* global) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
__device__ __forceinline__ void cp_async_16_l2_128_or_zero(unsigned shared, const void* global, int bytes) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int Pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// Arrives at an mbarrier once all copies that this thread has issued have landed.
__device__ __forceinline__ void cp_async_mbarrier_arrive(unsigned barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
