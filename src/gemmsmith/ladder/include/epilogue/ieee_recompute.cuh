// Sums that a fast path got wrong, and knows it, once more with fma.
//
// A split operand has no infinities: x - x1 is NaN if x is infinite, and the parts of numbers near the end of the range
// overflow although their sum does not. Such a sum always ends as an infinity or NaN, and never as a number. So sums
// that are not finite are computed again from the operands as they are, one fma after another in ascending k: what
// IEEE arithmetic gives, bit for bit as on CUDA cores. It is slow where there are many of them, but NaN ends it early.
#pragma once

// The first of K numbers and the distance between them.
struct Line {
    const float* first;
    long long step;
};

__device__ __forceinline__ float fma_sum(Line a, Line b, int K) {
    float sum = 0.0f;
    for (int k = 0; k < K && sum == sum; ++k)  // NaN stays NaN
        sum = __fmaf_rn(a.first[k * a.step], b.first[k * b.step], sum);
    return sum;
}

// Scales sums, then replaces those that are not finite by `again(index)`. The loop is rolled: registers cannot be
// indexed, so the sums move up by one each time, and are back in their places at the end.
template <int Count, class Again>
__device__ __forceinline__ void scale_or_sum_again(float (&sums)[Count], float scale, const Again& again) {
    float finite = 0.0f;  // or else NaN
#pragma unroll
    for (int i = 0; i < Count; ++i) {
        sums[i] = __fmul_rn(sums[i], scale);
        finite = __fmaf_rn(sums[i], 0.0f, finite);
    }
    if (finite == 0.0f) return;
#pragma unroll 1
    for (int i = 0; i < Count; ++i) {
        float sum = sums[0];
        if (!(fabsf(sum) < __int_as_float(0x7F800000))) sum = again(i);
#pragma unroll
        for (int j = 1; j < Count; ++j) sums[j - 1] = sums[j];
        sums[Count - 1] = sum;
    }
}
