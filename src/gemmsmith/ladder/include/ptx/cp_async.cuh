// cp.async: copies from global to shared memory that bypass registers and run while the thread computes.
//
// Copies gather in groups. cp_async_commit closes a thread's group; cp_async_wait<Pending> returns once at most
// its Pending newest groups are still in flight. Both speak of the thread's own copies only: to see the copies of
// others, a barrier must follow the wait.
#pragma once

#include "ptx/shared_address.cuh"

// 16 bytes, both sides aligned to 16; past L1 (.cg), since what goes to shared memory is not read from L1 again.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}

// 4 bytes, or four zero bytes when !valid. The source must be a legal address even then, though it is not read.
__device__ __forceinline__ void cp_async_4_or_zero(void* shared, const void* global, bool valid) {
    const int bytes = valid ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int Pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
