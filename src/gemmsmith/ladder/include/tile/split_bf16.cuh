// fp32 numbers as sums of three bf16 numbers, for tensor cores that multiply bf16.
//
// A bf16 number has 8 significant bits, so three of them hold the 24 of fp32:
//
//     x1 = bf16(x)   x2 = bf16(x - x1)   x3 = bf16(x - x1 - x2)   each to nearest; both differences are exact
//
// and x = x1 + x2 + x3, exactly: each part is at most 2^-8 of the one before it. Of the nine products of x and y six count.
// The others, x2 y3, x3 y2 and x3 y3, are at most 2^-24 of x y together, and as often negative as positive.
//
// Range. The last bit of fp32 is 2^-149, that of bf16 2^-133: so numbers are multiplied by 2^16 first, and none is too
// small. From 2^112 on (5e33) one is too large for that: x1 becomes infinite, and with it every sum it goes into, as
// with infinities and NaN proper. None of these sums is finite by mistake; ieee_recompute.cuh puts them right.
#pragma once

#include "tile/fragments.cuh"

constexpr float PART_SCALE = 65536.0f;              // of an operand
constexpr float SUM_UNSCALE = 1.0f / 65536 / 65536;  // of a sum of products

// `low` in the lower half of a word and `high` in the upper, each rounded to nearest-even.
__device__ __forceinline__ unsigned bf16_pair(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// Neighbours in k of one operand: parts[p] has part p of both.
__device__ __forceinline__ void split_pair(unsigned (&parts)[3], unsigned low_bits, unsigned high_bits) {
    float low = __fmul_rn(__uint_as_float(low_bits), PART_SCALE);
    float high = __fmul_rn(__uint_as_float(high_bits), PART_SCALE);
#pragma unroll
    for (int p = 0; p < 3; ++p) {
        parts[p] = bf16_pair(low, high);
        low = __fsub_rn(low, __uint_as_float(parts[p] << 16));
        high = __fsub_rn(high, __uint_as_float(parts[p] & 0xFFFF0000));
    }
}

// 16 of k of a fragment, read as two fragments of 8 of fp32 (fragments.cuh): parts[p] is an operand of bf16 for
// mma.sync. A lane's four numbers of a row are q, q + 4, q + 8 and q + 12 of k, not 2q, 2q + 1, 2q + 8 and 2q + 9: in A
// and in B alike, so that it does not matter.
template <Operand Which>
__device__ __forceinline__ void split_fragment(unsigned (&parts)[3][4], const unsigned (&whole)[2][4]) {
    constexpr int UPPER = Which == Operand::A ? 1 : 2;   // registers from the first 8 rows or columns to the others,
    constexpr int K_HALF = Which == Operand::A ? 2 : 1;  // and from one half of k to the other
#pragma unroll
    for (int upper = 0; upper < 2; ++upper)
#pragma unroll
        for (int k_half = 0; k_half < 2; ++k_half) {
            unsigned pair[3];
            split_pair(pair, whole[k_half][upper * UPPER], whole[k_half][upper * UPPER + K_HALF]);
#pragma unroll
            for (int p = 0; p < 3; ++p) parts[p][upper * UPPER + k_half * K_HALF] = pair[p];
        }
}

// The five products that are small against x1 y1, smallest first: number of A's part, number of B's.
constexpr int SMALL_PRODUCTS = 5;
__device__ constexpr int SMALL_A[] = {2, 0, 1, 1, 0};
__device__ constexpr int SMALL_B[] = {0, 2, 1, 0, 1};
