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
