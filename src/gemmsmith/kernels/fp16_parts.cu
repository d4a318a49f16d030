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
//           rows of the stored matrix, `span` threads have a line; else a block has 16 neighbouring lines, and four
//           threads go through one k of them:
//
//             along          4 span                 across         16 lines
//             line 0   | t0   t1   .. | t0 ..       k 0          | t0   t1   t2   t3   |
//             line 1   | tS   tS+1 .. | tS ..       k 1          | t4   t5   t6   t7   |
//
//           Twice through the numbers: for the largest, then to split and count; the second time out of a cache. A line
//           belongs to one block, so that nobody waits for another.
// Budget    384 bytes of shared memory, in which the warps of a line meet. Deeper lines have more threads, THREADS at
//           most, and registers are few enough for 768 threads on an SM: it is loads in flight that count.
// Needs     Any fp32 numbers at any address and stride. Planes start on 16 bytes: h of all, then l of all, rows as they
//           are stored, of a multiple of 8 numbers; those behind the end are zero. The verdict's words are 0 before.

#include <cuda_fp16.h>

#include "early.cuh"
#include "fp16_verdict.cuh"

// One operand, or a batch of them, as the host describes it.
struct Operand {
    const float* source;
    long long ld, stride;
    __half* planes;
    int* exponents;
    int* verdict;  // two words
    unsigned lines, depth;   // M or N, and K
    unsigned span;           // threads of a line; 0 where lines lie across
    unsigned blocks, total;  // of one matrix, and of all
};

__device__ __forceinline__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

// What brings a line's largest number, given by its bits, to [2^14, 2^15).
__device__ __forceinline__ int line_exponent(unsigned largest) {
    if (largest == 0 || largest >= 0x7F800000) return 0;
    const int top = 31 - __clz(largest);  // of a subnormal number, in units of 2^-149
    return largest < 0x00800000 ? 163 - top : 141 - static_cast<int>(largest >> 23);
}

// Four neighbours of a row; those from `count` on are zero. `whole` says that rows start on 16 bytes.
__device__ __forceinline__ float4 load_four(const float* from, int count, bool whole) {
    if (whole && count >= 4) return *reinterpret_cast<const float4*>(from);
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (count > 0) x.x = from[0];
    if (count > 1) x.y = from[1];
    if (count > 2) x.z = from[2];
    if (count > 3) x.w = from[3];
    return x;
}

__device__ __forceinline__ float at(const float4& x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }

__device__ __forceinline__ unsigned pair(__half low, __half high) {
    return __half_as_ushort(low) | static_cast<unsigned>(__half_as_ushort(high)) << 16;
}

constexpr int MOST_VALUES = 3;
using Met = int[THREADS / 32][4 * MOST_VALUES];

// Values of all threads that share a line, by an operation that does not care about order. Threads of a warp that are
// less than `Apart` from each other have different lines: 1 where k runs along the rows, else 4.
template <int Apart>
struct Together {
    Met& met;
    unsigned first, count;  // the warps of a line

    template <int Values, class Join>
    __device__ __forceinline__ void of_line(int (&values)[Values], const Join& join) const {
        over<Apart>(values, first, count, join);
    }

    template <int Values, class Join>
    __device__ __forceinline__ void of_block(int (&values)[Values], const Join& join) const {
        over<1>(values, 0, THREADS / 32, join);
    }

private:
    template <int Lines, int Values, class Join>
    __device__ __forceinline__ void over(int (&values)[Values], unsigned from, unsigned warps, const Join& join) const {
        static_assert(Values <= MOST_VALUES, "they meet together");
        const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, mine = lane % Lines;
#pragma unroll
        for (int v = 0; v < Values; ++v)
#pragma unroll
            for (int distance = 16; distance >= Lines; distance /= 2)
                values[v] = join(values[v], __shfl_xor_sync(~0u, values[v], distance));
        __syncthreads();  // what was there before has been read
#pragma unroll
        for (int v = 0; v < Values; ++v)
            if (lane < Lines) met[warp][v * Lines + lane] = values[v];
        __syncthreads();
#pragma unroll
        for (int v = 0; v < Values; ++v) values[v] = met[from][v * Lines + mine];
        for (unsigned i = 1; i < warps; ++i)
#pragma unroll
            for (int v = 0; v < Values; ++v) values[v] = join(values[v], met[from + i][v * Lines + mine]);
    }
};

// One line's share of the verdict, from counts over the whole of it.
enum Counted { BELOW, ZEROS, ABOVE };
using Counts = int[3];

__device__ __forceinline__ int lost_of(const Counts& counts, int largest, unsigned depth) {
    if (largest >= 0x7F800000 || depth < LEAST_DEPTH) return largest == 0 ? 0 : MOST;
    return largest == 0 || counts[BELOW] == counts[ZEROS] ? 0 : counts[BELOW];
}

__device__ __forceinline__ int few_of(const Counts& counts, int largest, unsigned depth) {
    if (largest == 0) return 0;
    return largest >= 0x7F800000 || depth < LEAST_DEPTH ? MOST : MOST - counts[ABOVE];
}

// What a line is multiplied by, and its largest number then, as bits: a multiple of 2^23 less is a power of two less.
struct Scale {
    float once, again;  // subnormal numbers need two steps
    int most;

    __device__ __forceinline__ explicit Scale(int largest) {
        const int exponent = line_exponent(largest);
        once = power_of_two(min(exponent, 127));
        again = power_of_two(exponent - min(exponent, 127));
        most = __float_as_int((*this)(__int_as_float(largest)));
    }
    __device__ __forceinline__ float operator()(float x) const { return __fmul_rn(__fmul_rn(x, once), again); }
    __device__ __forceinline__ bool is_below(int size) const { return size < most - (13 << 23); }
    __device__ __forceinline__ bool is_above(int size) const { return size >= most - (4 << 23); }
};

// Of a block: all of its lines, LINES of them a thread (four neighbours of one line, or one number of four).
template <bool ALONG>
__device__ __forceinline__ void split(const Operand& operand, unsigned block, unsigned z, Met& met) {
    constexpr int LINES = ALONG ? 1 : 4;
    const unsigned span = ALONG ? operand.span : THREADS;
    const Together<LINES> together = {met, threadIdx.x / span * (span / 32), span / 32};
    const unsigned line = ALONG ? block * (THREADS / span) + threadIdx.x / span : block * 16 + threadIdx.x % 4 * 4;
    const bool inside = line < operand.lines;
    const int left = inside ? min(operand.lines - line, 4) : 0;  // lines of this thread, where they lie across
    const long long ld = ((ALONG ? operand.depth : operand.lines) - 1ll) / 8 * 8 + 8;  // of a plane
    const long long plane = ld * (ALONG ? operand.lines : operand.depth);
    const unsigned first = ALONG ? threadIdx.x % span : threadIdx.x / 4, step = ALONG ? span : THREADS / 4;
    // Fours of this thread's lines, and of its part of the planes, which are longer; what follows a four is `apart`.
    const unsigned fours = !inside ? 0 : ALONG ? (operand.depth + 3) / 4 : operand.depth;
    const unsigned planned = ALONG ? (inside ? ld / 4 : 0) : (line < ld ? operand.depth : 0);
    const float* const source = operand.source + z * operand.stride + line * (ALONG ? operand.ld : 1);
    const bool whole = reinterpret_cast<unsigned long long>(operand.source) % 16 == 0 && operand.ld % 4 == 0 &&
                       operand.stride % 4 == 0;
    const auto load = [&](unsigned four) {
        return load_four(source + (ALONG ? 4ll * four : four * operand.ld),
                         ALONG ? static_cast<int>(operand.depth - 4 * four) : left, whole);
    };

    const auto larger = [](int a, int b) { return max(a, b); };
    int largest[LINES] = {};  // as bits: those of positive numbers are ordered as the numbers are, NaN last
#pragma unroll 4
    for (unsigned four = first; four < fours; four += step) {
        const float4 x = load(four);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            largest[i % LINES] = max(largest[i % LINES], __float_as_int(at(x, i)) & MOST);
    }
#pragma unroll
    for (int i = 0; i < LINES; ++i) together.of_line(reinterpret_cast<int (&)[1]>(largest[i]), larger);

    Counts counts[LINES] = {};
    __half* const parts = operand.planes + z * 2 * plane + line * (ALONG ? ld : 1);
#pragma unroll 4
    for (unsigned four = first; four < planned; four += step) {
        const int valid = four < fours ? (ALONG ? static_cast<int>(operand.depth - 4 * four) : left) : 0;
        const float4 x = four < fours ? load(four) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        __half high[4], low[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const Scale scale(largest[i % LINES]);
            const float value = scale(at(x, i));
            const int size = __float_as_int(value) & MOST;
            counts[i % LINES][BELOW] += i < valid && scale.is_below(size);
            counts[i % LINES][ZEROS] += i < valid && at(x, i) == 0.0f;  // not its scaled value, which may underflow
            counts[i % LINES][ABOVE] += i < valid && scale.is_above(size);
            high[i] = __float2half_rn(value);
            low[i] = __float2half_rn(__fsub_rn(value, __half2float(high[i])));
        }
        __half* const target = parts + (ALONG ? 4ll * four : four * ld);
        *reinterpret_cast<uint2*>(target) = make_uint2(pair(high[0], high[1]), pair(high[2], high[3]));
        *reinterpret_cast<uint2*>(target + plane) = make_uint2(pair(low[0], low[1]), pair(low[2], low[3]));
    }

    const auto sum = [](int a, int b) { return a + b; };
    int verdict[2] = {};
#pragma unroll
    for (int i = 0; i < LINES; ++i) {
        together.of_line(counts[i], sum);
        verdict[0] = max(verdict[0], lost_of(counts[i], largest[i], operand.depth));
        verdict[1] = max(verdict[1], few_of(counts[i], largest[i], operand.depth));
        if (first == 0 && i < (ALONG ? inside : left))
            operand.exponents[z * operand.lines + line + i] = line_exponent(largest[i]);
    }
    together.of_block(verdict, larger);
    if (threadIdx.x < 2) atomicMax(operand.verdict + threadIdx.x, verdict[threadIdx.x]);
}

__device__ __forceinline__ void split_either(const Operand& operand, unsigned number, Met& met) {
    const unsigned z = number / operand.blocks, block = number % operand.blocks;
    if (operand.span > 0)
        split<true>(operand, block, z, met);
    else
        split<false>(operand, block, z, met);
}

extern "C" __global__ void __launch_bounds__(THREADS, 768 / THREADS)
fp16_parts(const Operand long_blocks, const Operand others) {
    start_next_and_wait_for_previous();
    __shared__ Met met;
    // Not one call with one of both: their members would have to be held in registers.
    if (blockIdx.x < long_blocks.total)
        split_either(long_blocks, blockIdx.x, met);
    else
        split_either(others, blockIdx.x - long_blocks.total, met);
}
