// Kernels that follow each other on a stream may overlap (programmatic dependent launch, from sm_90 on): the next one's
// blocks start as soon as all of this one's have allowed it, and wait at their own call until this one has ended and its
// results are visible. So before that call nothing may be read or written but the block's own shared memory.
//
// Relied upon, and not in PTX's words: of three in a row, the last sees the first one's results too. It waits for the
// second to end, which waited for the first; and what a kernel leaves behind when it ends is in memory for all.
#pragma once

__device__ __forceinline__ void start_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void start_next_and_wait_for_previous() {
    start_next();
    wait_for_previous();
}
