// Waiting for the launch before (pdl.cuh) as late as possible, where threads copy.
#pragma once

#include "ptx/pdl.cuh"

// Waits for the launch before once both addresses are known, whose highest bits are zero. They need nothing of that
// launch, so they are computed while it ends. The compiler would put the wait in front, and delay the first copy.
__device__ __forceinline__ void pdl_wait_behind_addresses(const void* first, const void* second) {
    if ((reinterpret_cast<long long>(first) ^ reinterpret_cast<long long>(second)) >= 0) pdl_wait();
}
