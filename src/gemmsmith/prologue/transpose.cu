// transpose: converts fp32 operands to lines of one k that start on 16 bytes, before a product that copies such lines.
//
// Idea      A product reads each operand once for every row or column of tiles, and each time pays for an operand that
//           is K-major or unaligned. Converting it costs one pass: 4 bytes read and 4 written per number.
// Owns      A block owns a tile of 64 x 64 numbers of the stored matrix, a thread 4 x 4 of them: 4 loads of 16 bytes,
//           all in flight together. The first blocks belong to A, the others to B, matrix by matrix.
//
//           K-major        registers, transposed -> shared memory -> lines of the target
//           not K-major    registers -> lines of the target; only their alignment changes
//
//           A thread's four numbers of one k are 16 bytes of shared memory. Number `four` of the line of k is stored at
//           four ^ k / 4. So eight threads access eight different positions, both when they write (consecutive k) and
//           when they read (consecutive in the line).
// Budget    16 KB of shared memory; on sm_90 32 registers: eight blocks per SM, 128 KB in flight.
// Needs     Source: any address, leading dimension and stride; `aligned` if all of them are multiples of 16 bytes.
//           Target: address, leading dimension and stride are multiples of 16 bytes; it does not overlap the source.
// Edges     Elements outside the matrix are loaded from its last row or column and are not stored, except up to three
//           numbers between the end of a line of the target and the next line.

#include "ptx/pdl.cuh"

constexpr unsigned SIDE = 64, FOURS = SIDE / 4;  // of a tile, in numbers and in vectors of four
static_assert(THREADS == FOURS * FOURS, "a thread owns 4 x 4 numbers");

// An operand as stored, and its target.
struct Operand {
    const float* source;
    float* target;
    long long ld, stride, target_ld, target_stride;
    unsigned rows, cols;
    unsigned across, blocks, total;    // tiles in a row of tiles, in a matrix, in all matrices
    unsigned short k_major, aligned;   // k runs along rows; rows start on 16 bytes
};

using Square = float[4][4];

// Loads the square at (row, col); `from` is the beginning of the first row.
__device__ __forceinline__ void load(Square& x, const Operand& operand, const float* from, unsigned row, unsigned col,
                                     bool vectors) {
    if (vectors) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            reinterpret_cast<float4&>(x[i]) = __ldcs(
                reinterpret_cast<const float4*>(from + min(row + i, operand.rows - 1) * operand.ld + col));
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                x[i][j] = from[min(row + i, operand.rows - 1) * operand.ld + min(col + j, operand.cols - 1)];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
transpose(const Operand a, const Operand b) {
    pdl_launch_and_wait();
    __shared__ float4 tile[SIDE][FOURS];
    const bool first = blockIdx.x < a.total;
    const Operand operand = first ? a : b;
    const unsigned number = first ? blockIdx.x : blockIdx.x - a.total;
    const unsigned z = number / operand.blocks, block = number % operand.blocks;
    const unsigned top = block / operand.across * SIDE, left = block % operand.across * SIDE;
    const unsigned four = threadIdx.x % FOURS, other = threadIdx.x / FOURS;
    const unsigned row = top + other * 4, col = left + four * 4;
    float* const target = operand.target + z * operand.target_stride;

    alignas(16) Square x;
    load(x, operand, operand.source + z * operand.stride, row, col, operand.aligned && left + SIDE <= operand.cols);
    if (!operand.k_major) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (row + i < operand.rows && col < operand.cols)
                *reinterpret_cast<float4*>(target + (row + i) * operand.target_ld + col) =
                    make_float4(x[i][0], x[i][1], x[i][2], x[i][3]);
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
        tile[four * 4 + k][other ^ four] = make_float4(x[0][k], x[1][k], x[2][k], x[3][k]);
    __syncthreads();
    float4 transposed[4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) transposed[i] = tile[i * FOURS + other][four ^ (i * FOURS + other) / 4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned k = left + i * FOURS + other, line = top + four * 4;
        if (k < operand.cols && line < operand.rows)
            *reinterpret_cast<float4*>(target + k * operand.target_ld + line) = transposed[i];
    }
}
