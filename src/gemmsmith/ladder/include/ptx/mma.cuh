// Tensor cores through PTX: ldmatrix fills a warp's fragments from shared memory, mma.sync multiplies them.
//
// One mma.sync consumes 32 bytes of k from each row: 16 elements of 16 bits, 8 of tf32, 32 of 8 bits. In those bytes
// the fragments of all types look alike, so one ldmatrix serves them all.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx/shared_loads.cuh"

// Four matrices of 8 rows of 16 bytes. Lanes 8i to 8i + 7 give the addresses of the rows of matrix i; lane l receives
// of each matrix the 4 bytes number l % 4 of row l / 4. Transposed (elements of 2 bytes): element l / 4 of rows
// 2 (l % 4) and 2 (l % 4) + 1.
template <bool Transposed>
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], unsigned address) {
    if constexpr (Transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_shared_8(unsigned& first, unsigned& second, unsigned address) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(first), "=r"(second) : "r"(address) : "memory");
}

// An fp32 number rounded to the nearest tf32 (10 fraction bits). Ties go to even from sm_90 on, where that is one
// instruction and away from zero is three; away from zero before, where there is nothing else.
__device__ __forceinline__ unsigned nearest_tf32(unsigned fp32) {
    unsigned tf32;
#if __CUDA_ARCH__ >= 900
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(tf32) : "r"(fp32));
#else
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "r"(fp32));
#endif
    return tf32;
}

// Rounds fragments of fp32. Without it the tensor core ignores the low 13 bits, which rounds towards zero: twice the
// error, and always to the same side. Does nothing to other types.
template <class T, bool Round, int Count>
__device__ __forceinline__ void round_to_tf32(unsigned (&fragments)[Count][4]) {
    if constexpr (Round && sizeof(T) == 4)
#pragma unroll
        for (int i = 0; i < Count; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) fragments[i][j] = nearest_tf32(fragments[i][j]);
}

// What sums of products are kept in.
template <class T>
struct SumOf {
    using type = float;
};
template <>
struct SumOf<signed char> {
    using type = int;
};

// d += a * b: 16 rows of a, 8 columns of b, 16 x 8 sums, four a lane.
// The last argument only names the type of the elements; a float is taken as tf32.
__device__ __forceinline__ void mma(float* d, const unsigned (&a)[4], const unsigned* b, __half) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma(float* d, const unsigned (&a)[4], const unsigned* b, __nv_bfloat16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma(float* d, const unsigned (&a)[4], const unsigned* b, float) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma(int* d, const unsigned (&a)[4], const unsigned* b, signed char) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
