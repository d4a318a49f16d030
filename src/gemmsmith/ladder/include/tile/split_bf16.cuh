// fp32 numbers as sums of three bf16 terms, for tensor cores that multiply bf16.
//
// A bf16 number has 8 significant bits, so three of them hold the 24 of fp32:
//
//     x1 = bf16(x)   x2 = bf16(x - x1)   x3 = bf16(x - x1 - x2)   each to nearest; both differences are exact
//
// and x = x1 + x2 + x3 exactly: each term is at most 2^-8 of the one before it. Six of the nine products of terms of x
// and y are computed. The other three, x2 y3, x3 y2 and x3 y3, are together at most 2^-24 of x y, and negative as often
// as positive.
//
// Range. The last bit of fp32 is 2^-149, that of bf16 is 2^-133. So numbers are first multiplied by 2^16, and none is
// too small. Numbers of 2^112 (5e33) and above are too large for that: x1 becomes infinite, and so does every
// accumulator it goes into, as with infinities and NaN in the operands. Such an accumulator is never finite by mistake;
// ieee_recompute.cuh corrects it.
#pragma once

#include "ptx/convert.cuh"
#include "tile/fragments.cuh"

constexpr float SPLIT_SCALE = 65536.0f;              // of an operand
constexpr float ACC_UNSCALE = 1.0f / 65536 / 65536;  // of an accumulator

// Two consecutive k of one operand: terms[p] holds term p of both.
__device__ __forceinline__ void split_pair(unsigned (&terms)[3], unsigned low_bits, unsigned high_bits) {
    float low = __fmul_rn(__uint_as_float(low_bits), SPLIT_SCALE);
    float high = __fmul_rn(__uint_as_float(high_bits), SPLIT_SCALE);
#pragma unroll
    for (int p = 0; p < 3; ++p) {
        terms[p] = pack_bf16x2(low, high);
        low = __fsub_rn(low, __uint_as_float(terms[p] << 16));
        high = __fsub_rn(high, __uint_as_float(terms[p] & 0xFFFF0000));
    }
}

// Splits a fragment of 16 of k, read as two fragments of 8 fp32 of k (fragments.cuh): terms[p] is a bf16 operand of
// mma.sync. A lane's four numbers of a row are k = q, q + 4, q + 8 and q + 12 instead of 2q, 2q + 1, 2q + 8 and 2q + 9.
// That is the same permutation of k in A and in B, so the product is unchanged.
template <Operand Which>
__device__ __forceinline__ void split_fragment(unsigned (&terms)[3][4], const unsigned (&fp32)[2][4]) {
    constexpr int UPPER = Which == Operand::A ? 1 : 2;   // registers from the first 8 rows or columns to the others
    constexpr int K_HALF = Which == Operand::A ? 2 : 1;  // and from one half of k to the other
#pragma unroll
    for (int upper = 0; upper < 2; ++upper)
#pragma unroll
        for (int k_half = 0; k_half < 2; ++k_half) {
            unsigned pair[3];
            split_pair(pair, fp32[k_half][upper * UPPER], fp32[k_half][upper * UPPER + K_HALF]);
#pragma unroll
            for (int p = 0; p < 3; ++p) terms[p][upper * UPPER + k_half * K_HALF] = pair[p];
        }
}

// The five products that are small next to x1 y1, smallest first: the number of A's term, the number of B's.
constexpr int SMALL_PRODUCTS = 5;
__device__ constexpr int SMALL_A[] = {2, 0, 1, 1, 0};
__device__ constexpr int SMALL_B[] = {0, 2, 1, 0, 1};
