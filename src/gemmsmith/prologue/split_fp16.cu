// split_fp16: writes fp32 operands as two scaled fp16 terms per number, and a verdict whether two terms suffice.
//
// Idea      An fp16 number has 11 significant bits, so two of them hold 23 of the 24 bits of fp32 if the exponents
//           permit. A line is a row of A or a column of B, along k. Each line is multiplied by a power of two that
//           brings its largest number into [2^14, 2^15); the product undoes this exactly. For a number x of a line with
//           exponent e
//
//               h = fp16(x 2^e)    l = fp16(x 2^e - h)    each to nearest; the difference is exact
//
// Lost      The error is at most 2^-23 of x or, if l is subnormal, 2^-25, which is 2^-39 of the line's largest number
//           mx. That is no more than 2^-23 of x if x is at least t mx, with t = 2^-13. Let S be the set of k for which
//           x, of row i, is smaller. The error there must be small next to the sum of |a||b| of row i and any column j
//           of B, whose largest number is my. If all such x are zero, there is no error. Otherwise, let column j have n
//           numbers of at least my / 16, and let 32 |S| <= n:
//
//               sum of |b| >= n my / 16 >= 2 |S| my,  so at least half of it is outside S, where |a| >= t mx, and
//               sum of |a||b| >= t mx / 2 * sum of |b|;   error: |S| 2^-39 mx my <= 2^-40 mx * sum of |b|
//
//           so the error is at most 2^-39 / t = 2^-26 of the sum of |a||b|. The same holds with A and B exchanged. The
//           verdict requires this of all pairs at once: the largest |S| of any row against the smallest n of any
//           column. It uses integers only, so every order of blocks gives the same verdict. A line of zeros has an
//           empty S and any n; a line with an infinity or NaN is refused. So are lines of fewer than LEAST_DEPTH
//           numbers: one product loses more than one rounding does, and it takes that many until all of them together
//           lose less than K roundings.
// Owns      A thread handles four adjacent numbers of a row at a time: 16 bytes in, 8 out for each term. If the stored
//           matrix is K-major, `span` threads share a line. Otherwise CLUSTER blocks share 16 adjacent lines, and four
//           threads handle one k of them:
//
//             K-major        4 span                 not K-major    16 lines
//             line 0   | t0   t1   .. | t0 ..       k 0          | t0   t1   t2   t3   |
//             line 1   | tS   tS+1 .. | tS ..       k 1          | t4   t5   t6   t7   |
//
//           There are two passes over the numbers, KEPT vectors of four per thread at a time: from the end to the
//           beginning to find the largest, then from the beginning to split and count. So the first numbers are still
//           in registers in the second pass: all of them for k up to 8192 (K-major) or 512 CLUSTER (otherwise). The
//           others are read again, from a cache. Blocks that share lines send each other their largest numbers, and
//           send their counts to the first block; there is no other waiting.
// Budget    2 KB of shared memory for the reduction over the warps of a line, and 2 KB for that over the blocks of a
//           cluster. Deeper lines have more threads, up to THREADS. Registers are few enough for 768 threads per SM: 96
//           KB of loads in flight, where 36 KB would suffice (4.8 TB/s for 1 us on 132 SMs).
// Needs     Any fp32 numbers at any address and stride. Planes start on 16 bytes: h of all numbers, then l of all, in
//           the layout of the source, with rows of a multiple of 8 numbers; those after the end are zero. The words of
//           the verdict are 0 before. The grid has a multiple of CLUSTER blocks for each operand; blocks from `total`
//           on have no work.

#include <cuda_fp16.h>

#include "ptx/pdl.cuh"
#include "ptx/predicated_add.cuh"
#include "tile/fp16_verdict.cuh"
#include "tile/row_reduction.cuh"

// One operand, or a batch of them, as described by the host.
struct Operand {
    const float* source;
    long long ld, stride;
    __half* planes;
    int* exponents;
    int* verdict;  // two words
    unsigned lines, depth;   // M or N, and K
    unsigned span;           // threads per line, a power of two; 0 if not K-major
    unsigned blocks, total;  // of one matrix (if not K-major, a multiple of CLUSTER), and of all
};

__device__ __forceinline__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

// The exponent that brings a line's largest number, given as bits, into [2^14, 2^15).
__device__ __forceinline__ int line_exponent(unsigned largest) {
    if (largest == 0 || largest >= 0x7F800000) return 0;
    const int top = 31 - __clz(largest);  // the top bit of a subnormal number, in units of 2^-149
    return largest < 0x00800000 ? 163 - top : 141 - static_cast<int>(largest >> 23);
}

// Four adjacent numbers of a row at any address; those from `count` on are zero.
__device__ __forceinline__ float4 load_four(const float* from, int count) {
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (count > 0) x.x = from[0];
    if (count > 1) x.y = from[1];
    if (count > 2) x.z = from[2];
    if (count > 3) x.w = from[3];
    return x;
}

__device__ __forceinline__ float at(const float4& x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }

__device__ __forceinline__ unsigned bits_of(__half2 x) { return reinterpret_cast<const unsigned&>(x); }

// The factor of a line, and the bounds from which its scaled numbers are represented accurately, and are large.
struct Scale {
    float first, second;  // the factor as a product: subnormal numbers need two steps
    float accurate, large;

    __device__ __forceinline__ float operator()(float x) const { return __fmul_rn(__fmul_rn(x, first), second); }
};

__device__ __forceinline__ Scale scale_of(unsigned largest) {
    const int exponent = line_exponent(largest), first = min(exponent, 127);
    Scale scale = {power_of_two(first), power_of_two(exponent - first)};
    const float scaled = scale(__uint_as_float(largest));
    scale.accurate = __fmul_rn(scaled, power_of_two(-13));
    scale.large = __fmul_rn(scaled, power_of_two(-4));
    return scale;
}

enum Extremes { LARGEST, SMALLEST };
enum Counts { ACCURATE, LARGE };

// One line's contribution to the verdict, from its extremes and counts.
struct Contribution {
    int lost = 0, few = 0;

    __device__ __forceinline__ void of_line(unsigned largest, unsigned smallest, const unsigned (&counts)[2],
                                            unsigned depth) {
        if (largest == 0) return;
        const Scale scale = scale_of(largest);
        const bool refused = largest >= 0x7F800000 || depth < LEAST_DEPTH;
        const bool exact = scale(__uint_as_float(smallest)) >= scale.accurate;  // all numbers but zeros are accurate
        lost = refused ? MOST : exact ? 0 : depth - counts[ACCURATE];
        few = refused ? MOST : MOST - counts[LARGE];
    }
};

// Splits one block's share of its lines. A thread has LINES lines: four consecutive k of one, or one k of four.
template <bool K_MAJOR>
__device__ __forceinline__ void split(const Operand& operand, unsigned block, unsigned z,
                                      ReductionWorkspace& reduction) {
    constexpr int LINES = K_MAJOR ? 1 : 4;
    constexpr unsigned BLOCKS = K_MAJOR ? 1 : CLUSTER;  // that share lines
    if (BLOCKS > 1) init_reduction_barriers(reduction);
    const unsigned rank = BLOCKS > 1 ? cluster_rank() : 0;
    const unsigned span = K_MAJOR ? operand.span : THREADS, lines = K_MAJOR ? THREADS / span : ACROSS;
    const unsigned start = block / BLOCKS * lines, mine = K_MAJOR ? threadIdx.x / span : threadIdx.x % 4 * 4;
    const unsigned line = start + mine;
    const bool inside = line < operand.lines;
    const int left = inside ? min(operand.lines - line, 4) : 0;  // lines of this thread, if not K-major
    const long long ld = ((K_MAJOR ? operand.depth : operand.lines) - 1ll) / 8 * 8 + 8;  // of a plane
    const long long plane = ld * (K_MAJOR ? operand.lines : operand.depth);
    // Vectors of four in this thread's lines, and in its part of the planes, which are longer.
    const unsigned fours = !inside ? 0 : K_MAJOR ? (operand.depth + 3) / 4 : operand.depth;
    const unsigned plane_fours = K_MAJOR ? (inside ? ld / 4 : 0) : (line < ld ? operand.depth : 0);
    const unsigned first = K_MAJOR ? threadIdx.x % span : rank * (THREADS / 4) + threadIdx.x / 4;
    const float* const source = operand.source + z * operand.stride + line * (K_MAJOR ? operand.ld : 1);
    const bool aligned = reinterpret_cast<unsigned long long>(operand.source) % 16 == 0 && operand.ld % 4 == 0 &&
                         operand.stride % 4 == 0;
    // How many of them, from the first on, can be loaded as 16 bytes.
    const unsigned whole = aligned && (K_MAJOR || left == 4) ? (K_MAJOR ? operand.depth / 4 : operand.depth) : 0;
    // All threads together go through them in portions; `last` is where the last portion begins.
    const unsigned portion = KEPT * (K_MAJOR ? span : BLOCKS * (THREADS / 4));
    const unsigned last = ((K_MAJOR ? ld / 4 : operand.depth) - 1) & ~(portion - 1);
    const long long source_step = K_MAJOR ? 4 : operand.ld, plane_step = K_MAJOR ? 4 : ld;

    // All loads are issued before the first number is used: one branch for all of them.
    float4 kept[KEPT];
    const auto load = [&](unsigned begin) {
        const unsigned step = portion / KEPT;
        const float* from = source + begin * source_step;
        if (min(begin + portion - step, fours - 1) < whole) {
#pragma unroll
            for (int n = 0; n < KEPT; ++n, from += step * source_step) {
                kept[n] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (begin + n * step < fours) kept[n] = *reinterpret_cast<const float4*>(from);
            }
        } else {
#pragma unroll
            for (int n = 0; n < KEPT; ++n, from += step * source_step) {
                const unsigned four = begin + n * step;
                const int valid = K_MAJOR ? static_cast<int>(operand.depth - 4 * four) : left;
                kept[n] = load_four(from, four < fours ? valid : 0);
            }
        }
    };

    unsigned extremes[2][LINES] = {};  // as bits: those of positive numbers are ordered as the numbers are, NaN last
#pragma unroll 1
    for (unsigned begin = last + first;; begin -= portion) {
        load(begin);
#pragma unroll
        for (int n = 0; n < KEPT; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const unsigned magnitude = __float_as_uint(at(kept[n], i)) & MOST;
                extremes[LARGEST][i % LINES] = max(extremes[LARGEST][i % LINES], magnitude);
                extremes[SMALLEST][i % LINES] = max(extremes[SMALLEST][i % LINES], 0 - magnitude);
            }
        if (begin < portion) break;
    }

    reduce_warp<larger>(reduction.extremes, extremes);
    __syncthreads();
    if (BLOCKS > 1) {
        cluster_wait();
        const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (warp < BLOCKS)
            send_row(reduction.block_extremes[rank], reduction.barriers[0], warp,
                     reduce_rows<larger, false>(reduction.extremes, WARPS, 0, lane));
        mbarrier_wait(shared_address(&reduction.barriers[0]), 0);
    }
    const Row* const found = BLOCKS > 1 ? reduction.block_extremes : reduction.extremes;
    const unsigned rows = BLOCKS > 1 ? BLOCKS : span / 32;  // per line
    // If not K-major, each lane reduces one line and the lanes exchange the results.
    const unsigned reduced = reduce_rows<larger, K_MAJOR>(found, rows, LARGEST, K_MAJOR ? mine : threadIdx.x % 32);
    Scale scales[LINES];
#pragma unroll
    for (int i = 0; i < LINES; ++i) {
        const unsigned largest = K_MAJOR ? reduced : __shfl_sync(~0u, reduced, mine + i);
        scales[i] = scale_of(largest);
        if (first == 0 && i < (K_MAJOR ? inside : left))
            operand.exponents[static_cast<unsigned long long>(z) * operand.lines + line + i] = line_exponent(largest);
    }
    unsigned counts[2][LINES] = {};  // zeros are not counted, so those after the end of a line do not matter
    __half* target = operand.planes + z * 2 * plane + line * (K_MAJOR ? ld : 1) + first * plane_step;
#pragma unroll 1
    for (unsigned begin = first;;) {
        const unsigned step = portion / KEPT;
#pragma unroll
        for (int n = 0; n < KEPT; ++n, target += step * plane_step) {
            if (begin + n * step >= plane_fours) break;
            unsigned high[2], low[2];
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                float value[2];
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int of = (2 * pair + i) % LINES;
                    value[i] = scales[of](at(kept[n], 2 * pair + i));
                    count_if_at_least(counts[ACCURATE][of], value[i], scales[of].accurate);
                    count_if_at_least(counts[LARGE][of], value[i], scales[of].large);
                }
                const __half2 rounded = __floats2half2_rn(value[0], value[1]);
                const float2 back = __half22float2(rounded);
                high[pair] = bits_of(rounded);
                low[pair] = bits_of(__floats2half2_rn(__fsub_rn(value[0], back.x), __fsub_rn(value[1], back.y)));
            }
            *reinterpret_cast<uint2*>(target) = make_uint2(high[0], high[1]);
            *reinterpret_cast<uint2*>(target + plane) = make_uint2(low[0], low[1]);
        }
        begin += portion;
        if (begin >= last + portion) break;
        load(begin);
    }

    reduce_warp<sum>(reduction.counts, counts);
    __syncthreads();
    if (threadIdx.x >= 32) return;
    if (BLOCKS > 1) {
        send_row(reduction.block_counts[rank], reduction.barriers[1], 0,
                 reduce_rows<sum, false>(reduction.counts, WARPS, 0, threadIdx.x));
        if (rank > 0) return;  // nothing more is sent to this block
        mbarrier_wait(shared_address(&reduction.barriers[1]), 0);
    }
    const Row* const counted = BLOCKS > 1 ? reduction.block_counts : reduction.counts;
    Contribution verdict;
    if (threadIdx.x < lines) {  // a line after the last has only zeros
        const auto extreme = [&](Extremes which) {
            return reduce_rows<larger, K_MAJOR>(found, rows, which, threadIdx.x);
        };
        const auto count = [&](Counts which) { return reduce_rows<sum, K_MAJOR>(counted, rows, which, threadIdx.x); };
        verdict.of_line(extreme(LARGEST), 0 - extreme(SMALLEST), {count(ACCURATE), count(LARGE)}, operand.depth);
    }
#pragma unroll
    for (int distance = 8; distance > 0; distance /= 2) {  // a block has 16 lines at most
        verdict.lost = max(verdict.lost, __shfl_xor_sync(~0u, verdict.lost, distance));
        verdict.few = max(verdict.few, __shfl_xor_sync(~0u, verdict.few, distance));
    }
    if (threadIdx.x < 2) atomicMax(operand.verdict + threadIdx.x, threadIdx.x == 0 ? verdict.lost : verdict.few);
}

__device__ __forceinline__ void split_operand(const Operand& operand, unsigned number, ReductionWorkspace& reduction) {
    if (number >= operand.total) return;
    const unsigned z = number / operand.blocks, block = number % operand.blocks;
    if (operand.span > 0)
        split<true>(operand, block, z, reduction);
    else
        split<false>(operand, block, z, reduction);
}

#if CLUSTER > 1
#define CLUSTER_DIMS __cluster_dims__(CLUSTER, 1, 1)
#else
#define CLUSTER_DIMS
#endif

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(THREADS, 768 / THREADS)
split_fp16(const Operand long_blocks, const Operand others) {
    pdl_launch_and_wait();
    __shared__ ReductionWorkspace reduction;
    // All blocks of a cluster belong to one operand. Two calls, because selecting an operand first would put its
    // members in registers.
    const unsigned of_long = (long_blocks.total + CLUSTER - 1) / CLUSTER * CLUSTER;
    if (blockIdx.x < of_long)
        split_operand(long_blocks, blockIdx.x, reduction);
    else
        split_operand(others, blockIdx.x - of_long, reduction);
}
