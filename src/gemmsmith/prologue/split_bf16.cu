// split_bf16: writes fp32 operands as three matrices of bf16 terms each, before a product of the terms.
//
// Idea      A product would split each number as often as tiles need it. Splitting once, into memory, costs one pass
//           over the operands: 4 bytes read and 6 written per number.
// Owns      A thread owns 8 adjacent numbers of a row at a time, AT_ONCE times: 32 bytes in, 16 bytes out for each
//           term. The first blocks belong to A, the others to B; blockIdx.z is the matrix of a batch.
// Target    The matrices of the three terms follow each other, in the layout of the source. Rows start on 16 bytes, and
//           columns up to the next multiple of 8 become zero.
// Needs     Source: any address, leading dimension and stride. Target: starts on 16 bytes.

#include "tile/split_bf16.cuh"
#include "ptx/pdl.cuh"
#include "tile/fp16_verdict.cuh"
#include "tile/vector.cuh"

constexpr int CHUNK = 8;  // adjacent numbers per thread

// An operand as stored, and the target for its terms.
struct Source {
    const float* source;
    long long ld, stride;
    unsigned short* target;
    int rows, cols, copies;
};

__device__ __forceinline__ void load(float (&x)[CHUNK], const float* from, int count) {
    if (count >= CHUNK && reinterpret_cast<unsigned long long>(from) % 16 == 0) {
#pragma unroll
        for (int i = 0; i < CHUNK; i += 4)
            *reinterpret_cast<float4*>(&x[i]) = __ldcs(reinterpret_cast<const float4*>(from + i));
        return;
    }
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) x[i] = i < count ? from[i] : 0.0f;
}

__device__ __forceinline__ void split_operand(const Source& operand, unsigned block, int z) {
    const unsigned across = (operand.cols + CHUNK - 1) / CHUNK, chunks = operand.rows * across;
    const long long plane = static_cast<long long>(chunks) * CHUNK;
    const float* const source = operand.source + z * operand.stride;
    unsigned short* const target = operand.target + z * 3 * plane;
    float x[AT_ONCE][CHUNK];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
        const unsigned chunk = min((block * AT_ONCE + i) * THREADS + threadIdx.x, chunks - 1);
        const unsigned row = chunk / across, col = (chunk - row * across) * CHUNK;
        load(x[i], source + row * operand.ld + col, operand.cols - col);
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
        const unsigned chunk = (block * AT_ONCE + i) * THREADS + threadIdx.x;
        if (chunk >= chunks) return;
        Vec<unsigned, 4> terms[3];
#pragma unroll
        for (int j = 0; j < CHUNK / 2; ++j) {
            unsigned pair[3];
            split_pair(pair, __float_as_uint(x[i][2 * j]), __float_as_uint(x[i][2 * j + 1]));
#pragma unroll
            for (int p = 0; p < 3; ++p) terms[p].at[j] = pair[p];
        }
#pragma unroll
        for (int p = 0; p < 3; ++p)
            *reinterpret_cast<Vec<unsigned, 4>*>(target + p * plane + static_cast<long long>(chunk) * CHUNK) = terms[p];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
split_bf16(const __grid_constant__ Source a, const __grid_constant__ Source b, unsigned blocks_a, const int* verdict) {
    pdl_launch_and_wait();
    if (verdict != nullptr && fp16_accepted(verdict)) return;  // the fp16 split is used instead
    const bool first = blockIdx.x < blocks_a;
    const Source& operand = first ? a : b;
    if (blockIdx.z < operand.copies) split_operand(operand, first ? blockIdx.x : blockIdx.x - blocks_a, blockIdx.z);
}
