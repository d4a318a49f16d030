// Programmatic dependent launch (PDL, sm_90 and newer): consecutive kernels of a stream may overlap.
//
// The blocks of the next kernel start once all blocks of this one have called pdl_launch_dependents. They stop at
// pdl_wait until this kernel has ended and its results are visible. Before pdl_wait a block may touch nothing but its
// own shared memory.
//
// One property is relied upon although PTX does not spell it out: the third kernel of a chain also sees the results of
// the first. It waits for the second to end, the second has waited for the first, and the results of a kernel that has
// ended are in memory for everyone.
#pragma once

__device__ __forceinline__ void pdl_launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void pdl_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void pdl_launch_and_wait() {
    pdl_launch_dependents();
    pdl_wait();
}
