// Conversions that have no intrinsic, or none for every architecture.
#pragma once

// `low` in the lower half of a word and `high` in the upper half, each rounded to the nearest bf16, ties to even.
__device__ __forceinline__ unsigned pack_bf16x2(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// An fp32 number rounded to the nearest tf32 (10 fraction bits). On sm_90 and newer, ties go to even, which is one
// instruction (away from zero would be three). Before sm_90 ties go away from zero: there is no other conversion.
__device__ __forceinline__ unsigned nearest_tf32(unsigned fp32) {
    unsigned tf32;
#if __CUDA_ARCH__ >= 900
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(tf32) : "r"(fp32));
#else
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "r"(fp32));
#endif
    return tf32;
}
