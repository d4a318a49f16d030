// fp32 operands as sums of two or three 16-bit terms, and which products of terms are computed.
//
// Term 0 has the leading bits; each further term holds what the terms before it left. The product of terms p and q is
// about 2^-8 (bf16) or 2^-11 (fp16), to the power p + q, of the full product. Listed are the products that are visible
// in an fp32 accumulator, small ones first: the tensor core truncates, and so truncates large accumulators as rarely as
// possible.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct TermProduct {
    int a, b;  // the number of A's term and of B's
};

template <int Terms>
struct Split;

template <>
struct Split<3> {
    using Element = __nv_bfloat16;
    static constexpr int PRODUCTS = 6;
    static __device__ __forceinline__ constexpr TermProduct product(int i) {
        constexpr TermProduct all[] = {{1, 1}, {0, 1}, {1, 0}, {0, 2}, {2, 0}, {0, 0}};
        return all[i];
    }
};

template <>
struct Split<2> {
    using Element = __half;
    static constexpr int PRODUCTS = 3;
    static __device__ __forceinline__ constexpr TermProduct product(int i) {
        constexpr TermProduct all[] = {{0, 1}, {1, 0}, {0, 0}};
        return all[i];
    }
};
