// A comparison and a predicated addition.
#pragma once

// Adds 1 to `count` if |x| is at least `bound`, in two instructions; the compiler would use three.
__device__ __forceinline__ void count_if_at_least(unsigned& count, float x, float bound) {
    asm("{\n.reg .pred p;\nsetp.ge.f32 p, %1, %2;\n@p add.u32 %0, %0, 1;\n}" : "+r"(count) : "f"(fabsf(x)), "f"(bound));
}
