// Waiting for the launch before (pdl.cuh) as late as possible.
#pragma once

#include "ptx/pdl.cuh"

// Waits for the launch before once `first` and `second` are known, neither of which is negative. They need nothing of
// that launch, so they are computed while it ends. The compiler would put the wait in front, and delay the first load.
__device__ __forceinline__ void pdl_wait_behind(int first, int second) {
    if ((first ^ second) >= 0) pdl_wait();
}
