// split_short: writes one fp32 operand as three matrices of bf16 terms, before a product that splits the other itself.
//
// Idea      As split_bf16, for one operand, and in the order of k in which the product reads the other one. PERMUTED:
//           of every 16 k, pair 2q (k = 4q, 4q + 1) becomes pair q, and pair 2q + 1 becomes pair q + 4 (fp32_tile.cuh).
// Owns      A thread owns 16 numbers: of a row along k, a group of 16 k; of a row across k, 16 adjacent numbers.
// Target    The matrices of the three terms follow each other, in the layout of the source. K is rounded up to 16 and
//           what is added becomes zero; rows across k are rounded up to 16 numbers, of which the last may be anything
//           that is not read.
// Needs     Source: any address, leading dimension and stride. Target: starts on 16 bytes.

#include "ptx/pdl.cuh"
#include "tile/split_bf16.cuh"
#include "tile/vector.cuh"

constexpr int GROUP = 16;  // numbers per thread

// An operand as stored, and the target for its terms. `lines` of the target are rows along k, or k rounded up.
struct Source {
    const float* source;
    long long ld, stride;
    unsigned short* target;
    int rows, cols, lines, k_major, permuted;
};

extern "C" __global__ void __launch_bounds__(THREADS)
split_short(const Source operand) {
    pdl_launch_and_wait();
    const unsigned across = (operand.cols + GROUP - 1) / GROUP, chunk = blockIdx.x * THREADS + threadIdx.x;
    const unsigned row = chunk / across, col = (chunk - row * across) * GROUP, z = blockIdx.y;
    if (row >= static_cast<unsigned>(operand.lines)) return;
    const long long plane = static_cast<long long>(operand.lines) * across * GROUP;
    const float* const from = operand.source + z * operand.stride + row * operand.ld + col;
    const int count = row < static_cast<unsigned>(operand.rows) ? operand.cols - static_cast<int>(col) : 0;
    unsigned x[GROUP];
    if (count >= GROUP && reinterpret_cast<unsigned long long>(from) % 16 == 0) {
#pragma unroll
        for (int i = 0; i < GROUP; i += 4) *reinterpret_cast<uint4*>(&x[i]) = *reinterpret_cast<const uint4*>(from + i);
    } else {
#pragma unroll
        for (int i = 0; i < GROUP; ++i) x[i] = i < count ? __float_as_uint(from[i]) : 0;
    }
    const bool along = operand.permuted && operand.k_major;
    unsigned line = row;
    if (operand.permuted && !operand.k_major) {
        const unsigned k = row % GROUP;
        line = row - k + (k / 2 % 2 * 8 + k / 4 * 2 + k % 2);
    }
    Vec<unsigned, 4> terms[3][2];
#pragma unroll
    for (int i = 0; i < GROUP / 2; ++i) {  // pair i of the target
        const int q = i % 4 * 2 + i / 4;   // where it is in the source, if permuted
        unsigned pair[3];
        split_pair(pair, along ? x[2 * q] : x[2 * i], along ? x[2 * q + 1] : x[2 * i + 1]);
#pragma unroll
        for (int p = 0; p < 3; ++p) terms[p][i / 4].at[i % 4] = pair[p];
    }
    auto* const to = reinterpret_cast<Vec<unsigned, 4>*>(operand.target + z * 3 * plane +
                                                         (static_cast<long long>(line) * across) * GROUP + col);
#pragma unroll
    for (int p = 0; p < 3; ++p)
#pragma unroll
        for (int i = 0; i < 2; ++i) to[p * (plane / 8) + i] = terms[p][i];
}
