// Named barriers: a barrier for some of a block's warps.
#pragma once

// `id` is 1 to 15 (0 is __syncthreads); `threads` is how many take part, a multiple of 32.
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
