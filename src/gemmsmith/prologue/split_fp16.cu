// fp16_parts: fp32 operands as two fp16 numbers each, scaled line by line, and a verdict whether that is enough.
//
// Idea      An fp16 number has 11 significant bits, so two of them hold 23 of the 24 that fp32 has, if its exponents
//           allow it. So every line along k, a row of A or a column of B, gets a power of two that brings its largest
//           number to [2^14, 2^15); the product takes it back exactly. For a number x of a line with exponent e
//
//               h = fp16(x 2^e)    l = fp16(x 2^e - h)    each to nearest; the difference is exact
//
// Lost      is at most 2^-23 of x, or where l is subnormal 2^-25, which is 2^-39 of the line's largest number, mx.
//           That is no more than 2^-23 of x where x is at least t mx, t = 2^-13. Let S be the k where x, of row i, is
//           less. What is lost there is to be little beside the sum of |a||b|, of row i and any column j of B, whose
//           largest number is my. If all such x are zeros, nothing is. Else, with n numbers of at least my / 16
//           in column j, and 32 |S| <= n:
//
//               sum of |b| >= n my / 16 >= 2 |S| my,  so of it at least half lies outside S, where |a| >= t mx, and
//               sum of |a||b| >= t mx / 2 * sum of |b|;   lost: |S| 2^-39 mx my <= 2^-40 mx * sum of |b|
//
//           so at most 2^-39 / t = 2^-26 of the sum of |a||b|; and the same with A and B exchanged. The verdict asks
//           this of all pairs at once: the largest |S| of any row against the smallest n of any column. It is about
//           integers, so that every order of blocks gives the same one. A line of zeros has no S and any n; one
//           with an infinity or NaN is refused. So are lines of fewer than LEAST_DEPTH numbers: a product loses
//           more than a rounding does, and that many it takes until they all together lose less than K roundings.
// Owns      A thread has four neighbours of a row at a time: 16 bytes in, 8 out for each part. Where k runs along the
//           rows of the stored matrix, `span` threads have a line; else CLUSTER blocks have 16 neighbouring lines, and
//           four threads go through one k of them:
//
//             along          4 span                 across         16 lines
//             line 0   | t0   t1   .. | t0 ..       k 0          | t0   t1   t2   t3   |
//             line 1   | tS   tS+1 .. | tS ..       k 1          | t4   t5   t6   t7   |
//
//           Twice through the numbers, KEPT fours a thread at a time: from the last on for the largest, then from the
//           first on to split and count. So the first ones, all for k up to 512 CLUSTER across and 8192 along, are
//           still in registers; the others are read again, out of a cache. Blocks that share lines tell each other
//           their largest numbers, and the first one their counts; nobody else waits for another.
// Budget    2 KB of shared memory, in which the warps of a line meet, and 2 KB for the blocks of a cluster. Deeper
//           lines have more threads, THREADS at most, and registers are few enough for 768 threads on an SM: 96 KB of
//           loads in flight, where 4.8 TB/s for 1 us on 132 SMs are 36.
// Needs     Any fp32 numbers at any address and stride. Planes start on 16 bytes: h of all, then l of all, rows as they
//           are stored, of a multiple of 8 numbers; those behind the end are zero. The verdict's words are 0 before.
//           Of each operand the grid has a multiple of CLUSTER blocks; those from `total` on have nothing to do.

#include <cuda_fp16.h>

#include "ptx/pdl.cuh"
#include "tile/fp16_verdict.cuh"
#include "tile/row_reduction.cuh"

// One operand, or a batch of them, as the host describes it.
struct Operand {
    const float* source;
    long long ld, stride;
    __half* planes;
    int* exponents;
    int* verdict;  // two words
    unsigned lines, depth;   // M or N, and K
    unsigned span;           // threads of a line, a power of two; 0 where lines lie across
    unsigned blocks, total;  // of one matrix (where lines lie across, a multiple of CLUSTER), and of all
};

__device__ __forceinline__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

// What brings a line's largest number, given by its bits, to [2^14, 2^15).
__device__ __forceinline__ int line_exponent(unsigned largest) {
    if (largest == 0 || largest >= 0x7F800000) return 0;
    const int top = 31 - __clz(largest);  // of a subnormal number, in units of 2^-149
    return largest < 0x00800000 ? 163 - top : 141 - static_cast<int>(largest >> 23);
}

// Four neighbours of a row that start anywhere; those from `count` on are zero.
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

// One more where |x| is at least `bound`: two instructions, where the compiler takes three.
__device__ __forceinline__ void count_if(unsigned& count, float x, float bound) {
    asm("{\n.reg .pred p;\nsetp.ge.f32 p, %1, %2;\n@p add.u32 %0, %0, 1;\n}" : "+r"(count) : "f"(fabsf(x)), "f"(bound));
}

// What a line is multiplied by, and from where on its numbers then are held well enough, and large.
struct Scale {
    float once, again;  // subnormal numbers need two steps
    float held, large;

    __device__ __forceinline__ float operator()(float x) const { return __fmul_rn(__fmul_rn(x, once), again); }
};

__device__ __forceinline__ Scale scale_of(unsigned largest) {
    const int exponent = line_exponent(largest), once = min(exponent, 127);
    Scale scale = {power_of_two(once), power_of_two(exponent - once)};
    const float most = scale(__uint_as_float(largest));
    scale.held = __fmul_rn(most, power_of_two(-13));
    scale.large = __fmul_rn(most, power_of_two(-4));
    return scale;
}

enum Ends { LARGEST, SMALLEST };
enum Counts { HELD, LARGE };

// One line's share of the verdict, from what is known of the whole of it.
struct Share {
    int lost = 0, few = 0;

    __device__ __forceinline__ void of_line(unsigned largest, unsigned smallest, const unsigned (&counts)[2],
                                            unsigned depth) {
        if (largest == 0) return;
        const Scale scale = scale_of(largest);
        const bool refused = largest >= 0x7F800000 || depth < LEAST_DEPTH;
        const bool exact = scale(__uint_as_float(smallest)) >= scale.held;  // all but zeros are held
        lost = refused ? MOST : exact ? 0 : depth - counts[HELD];
        few = refused ? MOST : MOST - counts[LARGE];
    }
};

// Of a block: its share of its lines, LINES of them a thread (four neighbours of one line, or one number of four).
template <bool ALONG>
__device__ __forceinline__ void split(const Operand& operand, unsigned block, unsigned z, Met& met) {
    constexpr int LINES = ALONG ? 1 : 4;
    constexpr unsigned BLOCKS = ALONG ? 1 : CLUSTER;  // that share lines
    if (BLOCKS > 1) start_telling(met);
    const unsigned rank = BLOCKS > 1 ? cluster_rank() : 0;
    const unsigned span = ALONG ? operand.span : THREADS, lines = ALONG ? THREADS / span : ACROSS;
    const unsigned start = block / BLOCKS * lines, mine = ALONG ? threadIdx.x / span : threadIdx.x % 4 * 4;
    const unsigned line = start + mine;
    const bool inside = line < operand.lines;
    const int left = inside ? min(operand.lines - line, 4) : 0;  // lines of this thread, where they lie across
    const long long ld = ((ALONG ? operand.depth : operand.lines) - 1ll) / 8 * 8 + 8;  // of a plane
    const long long plane = ld * (ALONG ? operand.lines : operand.depth);
    // Fours of this thread's lines, and of its part of the planes, which are longer.
    const unsigned fours = !inside ? 0 : ALONG ? (operand.depth + 3) / 4 : operand.depth;
    const unsigned planned = ALONG ? (inside ? ld / 4 : 0) : (line < ld ? operand.depth : 0);
    const unsigned first = ALONG ? threadIdx.x % span : rank * (THREADS / 4) + threadIdx.x / 4;
    const float* const source = operand.source + z * operand.stride + line * (ALONG ? operand.ld : 1);
    const bool aligned = reinterpret_cast<unsigned long long>(operand.source) % 16 == 0 && operand.ld % 4 == 0 &&
                         operand.stride % 4 == 0;
    // How many of them can be loaded as 16 bytes, from the first on.
    const unsigned whole = aligned && (ALONG || left == 4) ? (ALONG ? operand.depth / 4 : operand.depth) : 0;
    // Those of all threads are gone through in portions, the last of which begins with `last`.
    const unsigned portion = KEPT * (ALONG ? span : BLOCKS * (THREADS / 4));
    const unsigned last = ((ALONG ? ld / 4 : operand.depth) - 1) & ~(portion - 1);
    const long long apart = ALONG ? 4 : operand.ld, part_apart = ALONG ? 4 : ld;

    // All loads are on their way before the first number is looked at: so one branch for all of them.
    float4 kept[KEPT];
    const auto load = [&](unsigned begin) {
        const unsigned step = portion / KEPT;
        const float* from = source + begin * apart;
        if (min(begin + portion - step, fours - 1) < whole) {
#pragma unroll
            for (int n = 0; n < KEPT; ++n, from += step * apart) {
                kept[n] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (begin + n * step < fours) kept[n] = *reinterpret_cast<const float4*>(from);
            }
        } else {
#pragma unroll
            for (int n = 0; n < KEPT; ++n, from += step * apart) {
                const unsigned four = begin + n * step;
                const int valid = ALONG ? static_cast<int>(operand.depth - 4 * four) : left;
                kept[n] = load_four(from, four < fours ? valid : 0);
            }
        }
    };

    unsigned ends[2][LINES] = {};  // as bits: those of positive numbers are ordered as the numbers are, NaN last
#pragma unroll 1
    for (unsigned begin = last + first;; begin -= portion) {
        load(begin);
#pragma unroll
        for (int n = 0; n < KEPT; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const unsigned size = __float_as_uint(at(kept[n], i)) & MOST;
                ends[LARGEST][i % LINES] = max(ends[LARGEST][i % LINES], size);
                ends[SMALLEST][i % LINES] = max(ends[SMALLEST][i % LINES], 0 - size);
            }
        if (begin < portion) break;
    }

    meet<larger>(met.ends, ends);
    __syncthreads();
    if (BLOCKS > 1) {
        cluster_wait();
        const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (warp < BLOCKS)
            tell(met.ends_of_blocks[rank], met.told[0], warp, over<larger, false>(met.ends, WARPS, 0, lane));
        barrier_wait(shared_address(&met.told[0]), 0);
    }
    const Row* const found = BLOCKS > 1 ? met.ends_of_blocks : met.ends;
    const unsigned rows = BLOCKS > 1 ? BLOCKS : span / 32;  // of a line
    // Where lines lie across, a lane joins what was found of one, and gives it to the others.
    const unsigned joined = over<larger, ALONG>(found, rows, LARGEST, ALONG ? mine : threadIdx.x % 32);
    Scale scales[LINES];
#pragma unroll
    for (int i = 0; i < LINES; ++i) {
        const unsigned largest = ALONG ? joined : __shfl_sync(~0u, joined, mine + i);
        scales[i] = scale_of(largest);
        if (first == 0 && i < (ALONG ? inside : left))
            operand.exponents[static_cast<unsigned long long>(z) * operand.lines + line + i] = line_exponent(largest);
    }
    unsigned counts[2][LINES] = {};  // not of zeros, so that those behind a line make no difference
    __half* target = operand.planes + z * 2 * plane + line * (ALONG ? ld : 1) + first * part_apart;
#pragma unroll 1
    for (unsigned begin = first;;) {
        const unsigned step = portion / KEPT;
#pragma unroll
        for (int n = 0; n < KEPT; ++n, target += step * part_apart) {
            if (begin + n * step >= planned) break;
            unsigned high[2], low[2];
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                float value[2];
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int of = (2 * pair + i) % LINES;
                    value[i] = scales[of](at(kept[n], 2 * pair + i));
                    count_if(counts[HELD][of], value[i], scales[of].held);
                    count_if(counts[LARGE][of], value[i], scales[of].large);
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

    meet<sum>(met.counts, counts);
    __syncthreads();
    if (threadIdx.x >= 32) return;
    if (BLOCKS > 1) {
        tell(met.counts_of_blocks[rank], met.told[1], 0, over<sum, false>(met.counts, WARPS, 0, threadIdx.x));
        if (rank > 0) return;  // nobody tells it anything any more
        barrier_wait(shared_address(&met.told[1]), 0);
    }
    const Row* const counted = BLOCKS > 1 ? met.counts_of_blocks : met.counts;
    Share share;
    if (threadIdx.x < lines) {  // one behind the last has numbers of no line: zeros
        const auto end = [&](Ends which) { return over<larger, ALONG>(found, rows, which, threadIdx.x); };
        const auto count = [&](Counts which) { return over<sum, ALONG>(counted, rows, which, threadIdx.x); };
        share.of_line(end(LARGEST), 0 - end(SMALLEST), {count(HELD), count(LARGE)}, operand.depth);
    }
#pragma unroll
    for (int distance = 8; distance > 0; distance /= 2) {  // a block has 16 lines at most
        share.lost = max(share.lost, __shfl_xor_sync(~0u, share.lost, distance));
        share.few = max(share.few, __shfl_xor_sync(~0u, share.few, distance));
    }
    if (threadIdx.x < 2) atomicMax(operand.verdict + threadIdx.x, threadIdx.x == 0 ? share.lost : share.few);
}

__device__ __forceinline__ void split_either(const Operand& operand, unsigned number, Met& met) {
    if (number >= operand.total) return;
    const unsigned z = number / operand.blocks, block = number % operand.blocks;
    if (operand.span > 0)
        split<true>(operand, block, z, met);
    else
        split<false>(operand, block, z, met);
}

#if CLUSTER > 1
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
#else
#define IN_CLUSTERS
#endif

extern "C" __global__ void IN_CLUSTERS __launch_bounds__(THREADS, 768 / THREADS)
fp16_parts(const Operand long_blocks, const Operand others) {
    start_next_and_wait_for_previous();
    __shared__ Met met;
    // A cluster has blocks of one operand only. Not one call with one of both: their members would have to be held in
    // registers.
    const unsigned of_long = (long_blocks.total + CLUSTER - 1) / CLUSTER * CLUSTER;
    if (blockIdx.x < of_long)
        split_either(long_blocks, blockIdx.x, met);
    else
        split_either(others, blockIdx.x - of_long, met);
}
