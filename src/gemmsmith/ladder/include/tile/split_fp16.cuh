// Products by two fp16 parts of each number (split_fp16.cu): where exponents lie, and the way back from scaled sums.
//
//     x y 2^(ex + ey) = h h' + (h l' + l h') + l l'       the last is at most 2^-22 of x y, of any sign, and left out
#pragma once

#include "tile/fp16_verdict.cuh"

// By which powers of two the rows of A and the columns of B of one product were multiplied.
struct Exponents {
    const int *a, *b;
};

// Of product z of a batch; an operand whose stride is 0 serves all of it.
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

// A sum times 2^exponent, rounded once. A sum is 0 or from 2^-48, the least product, to 2^61: so the first step is
// exact, or infinite as the result is; and where the second one's factor has no room for the rest, the result is 0.
__device__ __forceinline__ float scaled_back(float sum, int exponent) {
    const int first = max(-78, min(127, exponent));
    const int rest = max(-149, exponent - first);
    return __fmul_rn(__fmul_rn(sum, any_power_of_two(first)), any_power_of_two(rest));
}
