// The bits of a number in global memory, or zero where it does not exist: then nothing is read.
#pragma once

__device__ __forceinline__ unsigned load_32_or_zero(const void* from, bool exists) {
    unsigned bits;
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.global.b32 %0, [%1];\n}"
                 : "=r"(bits) : "l"(from), "r"(static_cast<int>(exists)) : "memory");
    return bits;
}

__device__ __forceinline__ unsigned load_16_or_zero(const void* from, bool exists) {
    unsigned short bits;
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b16 %0, 0;\n@p ld.global.b16 %0, [%1];\n}"
                 : "=h"(bits) : "l"(from), "r"(static_cast<int>(exists)) : "memory");
    return bits;
}
