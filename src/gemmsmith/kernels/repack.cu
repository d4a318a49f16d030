// repack: a copy whose rows start on 16 bytes.
//
// Idea      A tensor map describes only rows that start on 16 bytes. Other operands are copied first: 16 bytes at a
//           time on both sides, although the source's rows begin anywhere. A chunk of 8 elements lies across two
//           aligned granules of the source; both are loaded and shifted together. How far is the same for a whole row
//           (another for the next, where the leading dimension is odd).
// Owns      A block owns blockDim.x chunks of ROWS * blockDim.y rows; a thread one chunk in each of ROWS rows,
//           blockDim.y apart, so that its loads are independent and all in flight together.
//
//           source   |......ab|cdefghij|klmnop..|    granules; this row begins 6 elements after a boundary
//           target   |abcdefgh|ijklmnop|             chunks; the columns up to the next multiple of 8 become zero
//
// Budget    8 registers for each of ROWS chunks; no shared memory. Every granule is loaded twice, the second time out
//           of L1.
// Needs     Source: elements of 2 bytes, any even address, leading dimension and stride. Target: starts on 16 bytes,
//           its leading dimension and stride are multiples of 8 elements; it does not overlap the source. The blocks
//           of one matrix are numbered along its rows by blockIdx.x alone, batches by blockIdx.z.
// Edges     Only a row's own bytes are read: the chunks at its two ends, whose granules may reach beyond it, go element
//           by element.

#include "early.cuh"

typedef unsigned short Element;  // any type of 2 bytes: nothing looks at the values
constexpr int CHUNK = 8;         // elements in 16 bytes

// A thread's chunk in ROWS rows, blockDim.y apart. `from` is the first one's address, `place` the distance of its row
// from some boundary of 16 bytes, `last` the distance of the matrix's last row, in rows.
struct Source {
    const Element* __restrict__ from;
    long long ld;
    unsigned place, last;

    __device__ __forceinline__ bool has(int i) const { return i * blockDim.y <= last; }
    // The last row stands for those that are not there: so loads need no guard, and all of them come first.
    __device__ __forceinline__ unsigned step(int i) const { return min(i * blockDim.y, last); }
    __device__ __forceinline__ const Element* at(int i) const { return from + step(i) * ld; }
    __device__ __forceinline__ unsigned before(int i) const {
        return (place + step(i) * static_cast<unsigned>(ld)) % CHUNK;
    }
};

// The chunk that begins `before` elements after the beginning of the first granule.
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

// Chunks that have at least one more on both sides, so that all of both granules belongs to their row.
__device__ __forceinline__ void load_inside(uint4 (&chunks)[ROWS], const Source& source) {
    uint4 first[ROWS], second[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const auto* const granules = reinterpret_cast<const uint4*>(source.at(i) - source.before(i));
        first[i] = granules[0];
        second[i] = granules[1];
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) chunks[i] = shifted(first[i], second[i], source.before(i));
}

// Chunks at an end of their rows; zeros follow the `left` elements that are left of a row.
__device__ __forceinline__ void load_edge(uint4 (&chunks)[ROWS], const Source& source, int left) {
    unsigned elements[ROWS][CHUNK];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < CHUNK; ++j) {
            elements[i][j] = 0;
            if (j < left) elements[i][j] = source.at(i)[j];  // a plain load: __ldg may be hoisted past its guard
        }
    }
    constexpr unsigned LOWER_HALVES = 0x5410;  // a shift would be made part of the guarded load, which then blocks
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
        chunks[i] = make_uint4(__byte_perm(elements[i][0], elements[i][1], LOWER_HALVES),
                               __byte_perm(elements[i][2], elements[i][3], LOWER_HALVES),
                               __byte_perm(elements[i][4], elements[i][5], LOWER_HALVES),
                               __byte_perm(elements[i][6], elements[i][7], LOWER_HALVES));
}

extern "C" __global__ void __launch_bounds__(THREADS)
repack(int rows, int cols, const Element* __restrict__ source, long long source_ld, Element* __restrict__ target,
       long long target_ld, long long source_stride, long long target_stride, int blocks_across, int second) {
    // Two copies for one product: the second starts when the first has waited for all that came before, so it need not
    // wait for the first one before it begins, but must before it ends, as the product waits for the second alone.
    if (!second) wait_for_previous();
    start_next();
    const unsigned across = blocks_across;
    const unsigned chunk = blockIdx.x % across * blockDim.x + threadIdx.x;
    const unsigned row = blockIdx.x / across * (ROWS * blockDim.y) + threadIdx.y;
    if (chunk > (cols - 1) / CHUNK || row >= rows) return;
    const int col = chunk * CHUNK;
    const int left = cols - col;

    // Of the kernel's own argument: once a derived pointer becomes a number, NVVM loses that it is global.
    const size_t place = reinterpret_cast<size_t>(source) / sizeof(Element);
    const long long start = blockIdx.z * source_stride + row * source_ld;
    const Source from = {source + start + col, source_ld, static_cast<unsigned>(place + start), rows - 1 - row};
    uint4 chunks[ROWS];
    if (col >= CHUNK && left >= 2 * CHUNK)
        load_inside(chunks, from);
    else
        load_edge(chunks, from, left);

    Element* to = target + blockIdx.z * target_stride + row * target_ld + col;
#pragma unroll
    for (int i = 0; i < ROWS; ++i, to += blockDim.y * target_ld)
        if (from.has(i)) *reinterpret_cast<uint4*>(to) = chunks[i];
    wait_for_previous();
}
