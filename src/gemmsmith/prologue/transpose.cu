// turn: operands of fp32 as lines across k that start on 16 bytes, before a product that copies slices of such lines.
//
// Idea      A product reads each operand once for every row or column of tiles, and pays each time for lines that run
//           along k, or start anywhere. Bringing them to one form costs one pass: 4 bytes read, 4 written a number.
// Owns      A block owns a tile of 64 x 64 numbers of the stored matrix, a thread 4 x 4 of them: 4 loads of 16 bytes,
//           all in flight together. The first blocks are A's, the others B's, matrix by matrix.
//
//           along k     registers, transposed -> shared memory -> lines of the target
//           across k    registers -> lines of the target: only their beginnings change
//
//           A thread's four numbers of one k are 16 bytes of shared memory. Those of k, number `four` of its line, are
//           in place four ^ k / 4, so that eight threads find eight different places, those that write (neighbours in
//           k) and those that read (neighbours in the line).
// Budget    16 KB of shared memory; on sm_90 32 registers: eight blocks on an SM, 128 KB in flight.
// Needs     Source: any address, leading dimension and stride; `aligned` where all are multiples of 16 bytes. Target:
//           its address, leading dimension and stride are; it does not overlap the source.
// Edges     What is not there is loaded from the last row or column, and is not stored, but for up to three numbers
//           between the end of a line of the target and the next one.

#include "ptx/pdl.cuh"

constexpr unsigned SIDE = 64, FOURS = SIDE / 4;  // of a tile
static_assert(THREADS == FOURS * FOURS, "a thread owns 4 x 4 numbers");

// An operand as it is stored, and where it goes.
struct Operand {
    const float* source;
    float* target;
    long long ld, stride, target_ld, target_stride;
    unsigned rows, cols;
    unsigned across, blocks, total;  // tiles along a row, of a matrix, of all of them
    unsigned short along, aligned;   // k runs along rows; these start on 16 bytes
};

using Square = float[4][4];

// `from` is the first row's beginning, `row` and `col` the place of the square.
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
turn(const Operand a, const Operand b) {
    start_next_and_wait_for_previous();
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
    if (!operand.along) {
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
    float4 turned[4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) turned[i] = tile[i * FOURS + other][four ^ (i * FOURS + other) / 4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned k = left + i * FOURS + other, line = top + four * 4;
        if (k < operand.cols && line < operand.rows)
            *reinterpret_cast<float4*>(target + k * operand.target_ld + line) = turned[i];
    }
}
