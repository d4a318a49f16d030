// A value that the compiler cannot see through.
#pragma once

// Returns x, but hides its value from the compiler, which then recomputes what depends on it instead of keeping it in
// registers.
__device__ __forceinline__ unsigned opaque(unsigned x) {
    asm volatile("" : "+r"(x));
    return x;
}
