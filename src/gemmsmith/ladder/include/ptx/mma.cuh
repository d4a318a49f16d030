// mma.sync: a warp multiplies fragments on the tensor cores.
//
// One mma.sync consumes 32 bytes of k from each row: 16 elements of 16 bits, 8 of tf32, 32 of 8 bits. In those bytes
// the fragments of all types have the same layout, so one ldmatrix serves them all.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The accumulator type for an element type.
template <class T>
struct AccumulatorOf {
    using type = float;
};
template <>
struct AccumulatorOf<signed char> {
    using type = int;
};

// d += a * b: 16 rows of a times 8 columns of b, 16 x 8 accumulators, four per lane. The last argument only names the
// element type; float means tf32.
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
