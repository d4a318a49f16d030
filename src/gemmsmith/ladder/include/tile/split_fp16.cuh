// Products of numbers split into two fp16 terms (split_fp16.cu): where the exponents are, and how accumulators are
// unscaled. With x 2^ex = h + l and y 2^ey = h' + l':
//
//     x y 2^(ex + ey) = h h' + (h l' + l h') + l l'       the last is at most 2^-22 of x y, of either sign, and omitted
#pragma once

#include "tile/fp16_verdict.cuh"

// The powers of two by which the rows of A and the columns of B of one product were multiplied.
struct Exponents {
    const int *a, *b;
};

// The exponents of product z of a batch. An operand of stride 0 serves the whole batch.
__device__ __forceinline__ Exponents exponents_at(const int* workspace, int M, int N, unsigned z, unsigned batch,
                                                  long long strideA, long long strideB) {
    const int* const a = workspace + VERDICT_BYTES / 4;
    const int* const b = a + (strideA == 0 ? 1ll : batch) * M;
    return {a + (strideA == 0 ? 0ll : z) * M, b + (strideB == 0 ? 0ll : z) * N};
}

// 2^exponent, from 2^-149 to 2^127.
__device__ __forceinline__ float any_power_of_two(int exponent) {
    return __int_as_float(exponent < -126 ? 1 << (exponent + 149) : (exponent + 127) << 23);
}

// acc * 2^exponent, rounded once. An accumulator is 0 or between 2^-48, the smallest product, and 2^61. So the first
// multiplication is exact, or overflows where the result does; and where the second factor would be below 2^-149, the
// result is 0.
__device__ __forceinline__ float unscale(float acc, int exponent) {
    const int first = max(-78, min(127, exponent));
    const int rest = max(-149, exponent - first);
    return __fmul_rn(__fmul_rn(acc, any_power_of_two(first)), any_power_of_two(rest));
}
