// 16 bytes that lie across two aligned pieces of 16 bytes, as 2-byte elements.
#pragma once

// The eight elements that begin `before` elements, 0 to 7, after the beginning of the first piece.
__device__ __forceinline__ uint4 shifted(const uint4& first, const uint4& second, unsigned before) {
    unsigned words[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
    for (int i = 0; i < 6; ++i) words[i] = before & 4 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = before & 2 ? words[i + 1] : words[i];
    const unsigned bits = before % 2 * 16;
    return make_uint4(__funnelshift_r(words[0], words[1], bits), __funnelshift_r(words[1], words[2], bits),
                      __funnelshift_r(words[2], words[3], bits), __funnelshift_r(words[3], words[4], bits));
}

// Word `number` of a chunk of which the first `count` elements count: the others are zero.
__device__ __forceinline__ unsigned kept(unsigned word, unsigned number, unsigned count) {
    return 2 * number + 1 < count ? word : 2 * number < count ? word & 0xFFFF : 0;
}

// The first `count` of a chunk's elements, then zeros.
__device__ __forceinline__ uint4 first_of(const uint4& chunk, unsigned count) {
    return make_uint4(kept(chunk.x, 0, count), kept(chunk.y, 1, count), kept(chunk.z, 2, count),
                      kept(chunk.w, 3, count));
}
