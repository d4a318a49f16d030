// Recomputes, with fma, the accumulators that a split product cannot get right.
//
// Splitting does not preserve infinities: x - x1 is NaN if x is infinite. And near the end of the range the terms of a
// number overflow although their sum does not. An accumulator affected by this is always infinite or NaN, never finite.
// So accumulators that are not finite are recomputed from the original operands, with one fma after another in
// ascending k. That is the IEEE result, bit for bit the one of the CUDA cores. It is slow if there are many such
// accumulators, but the loop stops at the first NaN.
#pragma once

// A row of A or a column of B: its first number, and the stride to the next k.
struct StridedVector {
    const float* first;
    long long stride;
};

__device__ __forceinline__ float fma_dot(StridedVector a, StridedVector b, int K) {
    float sum = 0.0f;
    for (int k = 0; k < K && sum == sum; ++k)  // NaN stays NaN
        sum = __fmaf_rn(a.first[k * a.stride], b.first[k * b.stride], sum);
    return sum;
}

// Scales accumulators, then replaces those that are not finite by `recompute(index)`. That loop is rolled. Registers
// cannot be indexed, so the accumulators rotate by one position per iteration; at the end each is back in its place.
template <int Count, class Recompute>
__device__ __forceinline__ void scale_or_recompute(float (&acc)[Count], float scale, const Recompute& recompute) {
    float finite = 0.0f;  // NaN if one of them is not finite
#pragma unroll
    for (int i = 0; i < Count; ++i) {
        acc[i] = __fmul_rn(acc[i], scale);
        finite = __fmaf_rn(acc[i], 0.0f, finite);
    }
    if (finite == 0.0f) return;
#pragma unroll 1
    for (int i = 0; i < Count; ++i) {
        float value = acc[0];
        if (!(fabsf(value) < __int_as_float(0x7F800000))) value = recompute(i);
#pragma unroll
        for (int j = 1; j < Count; ++j) acc[j - 1] = acc[j];
        acc[Count - 1] = value;
    }
}
