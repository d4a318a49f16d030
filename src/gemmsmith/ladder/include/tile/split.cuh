// fp32 operands as two or three matrices of 16-bit numbers, and which of their products count.
//
// Part 0 has the leading bits, each further one what the parts before it left. A product of parts p and q is about 2^-8
// (bf16) or 2^-11 (fp16) to the power p + q of the whole; those that can be seen in a sum of fp32 are listed, small
// ones first, so that the tensor core, which cuts sums off, does so to large sums as rarely as possible.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct Product {
    int a, b;  // the numbers of the parts
};

template <int Count>
struct Parts;

template <>
struct Parts<3> {
    using Number = __nv_bfloat16;
    static constexpr int PRODUCTS = 6;
    static __device__ __forceinline__ constexpr Product product(int i) {
        constexpr Product all[] = {{1, 1}, {0, 1}, {1, 0}, {0, 2}, {2, 0}, {0, 0}};
        return all[i];
    }
};

template <>
struct Parts<2> {
    using Number = __half;
    static constexpr int PRODUCTS = 3;
    static __device__ __forceinline__ constexpr Product product(int i) {
        constexpr Product all[] = {{0, 1}, {1, 0}, {0, 0}};
        return all[i];
    }
};
