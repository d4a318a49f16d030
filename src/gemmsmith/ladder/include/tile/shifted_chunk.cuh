// Eight 2-byte elements (16 bytes) that straddle two aligned 16-byte granules.
#pragma once

// The eight elements that begin `skew` elements, 0 to 7, after the start of the first granule.
__device__ __forceinline__ uint4 shifted(const uint4& first, const uint4& second, unsigned skew) {
    unsigned words[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
    for (int i = 0; i < 6; ++i) words[i] = skew & 4 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = skew & 2 ? words[i + 1] : words[i];
    const unsigned bits = skew % 2 * 16;
    return make_uint4(__funnelshift_r(words[0], words[1], bits), __funnelshift_r(words[1], words[2], bits),
                      __funnelshift_r(words[2], words[3], bits), __funnelshift_r(words[3], words[4], bits));
}

// Word `number` of a chunk, with the elements from `count` onwards set to zero.
__device__ __forceinline__ unsigned masked(unsigned word, unsigned number, unsigned count) {
    return 2 * number + 1 < count ? word : 2 * number < count ? word & 0xFFFF : 0;
}

// The first `count` elements of a chunk, then zeros.
__device__ __forceinline__ uint4 first_of(const uint4& chunk, unsigned count) {
    return make_uint4(masked(chunk.x, 0, count), masked(chunk.y, 1, count), masked(chunk.z, 2, count),
                      masked(chunk.w, 3, count));
}
