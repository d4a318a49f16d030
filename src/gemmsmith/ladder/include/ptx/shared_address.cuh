// Where a pointer to shared memory points, as the instructions that take such addresses want it.
#pragma once

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
