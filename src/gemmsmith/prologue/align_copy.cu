// align_copy: copies operands to rows that start on 16 bytes, before a product that needs such rows.
//
// Idea      A tensor map can describe only rows that start on 16 bytes. Other operands are copied first, both by one
//           launch, with 16-byte loads and stores although the rows of the source start at any address. A chunk of 8
//           elements straddles two aligned granules of the source; both are loaded and shifted together.
// Owns      Chunks are numbered along the rows of the copy, row after row and matrix after matrix. A block owns AT_ONCE
//           * THREADS of them, a thread every THREADS-th, so that all its loads are in flight together. The first
//           blocks belong to A, the others to B; an operand that is aligned already has none.
//
//           source   |......ab|cdefghij|klmnop..|    granules; this row begins 6 elements after a boundary
//           target   |abcdefgh|ijklmnop|             chunks; columns up to the next multiple of 8 become zero
//
//           Long rows of the target start on 128 bytes, although 16 would suffice. Otherwise the rows of a k-tile, 128
//           bytes each, would straddle two cache lines, and the product would read five sectors instead of four.
// Budget    8 registers for each of AT_ONCE chunks; no shared memory. Every granule is loaded twice, the second time
//           from L1.
// Needs     Source: elements of 2 bytes at any even address, any leading dimension and stride. Target: starts on 16
//           bytes and does not overlap the source.
// Edges     A granule at the end of a row also contains elements of what follows; they are dropped. Nothing is read
//           before the operand's first element or after its last: chunks there are copied element by element.

#include "ptx/pdl.cuh"
#include "tile/shifted_chunk.cuh"

typedef unsigned short Element;  // any type of 2 bytes: values are only copied
constexpr unsigned CHUNK = 8;    // elements in 16 bytes

// An operand as stored, and its target.
struct Operand {
    const Element* source;
    Element* target;
    long long ld, stride;
    long long extent;                // elements from the first to the last, over all matrices
    unsigned rows, cols;             // of a matrix
    unsigned across, total, blocks;  // chunks per row and in all matrices; blocks that copy them
    unsigned reciprocal, shift;      // n / across = n * reciprocal >> shift, for n below 2^31
    unsigned gap;                    // chunks between rows of the target
};

// A chunk: where it begins, counted from the operand's first element; how many elements remain in its row from there;
// its index in the target.
struct Chunk {
    long long start;
    unsigned left;
    size_t index;
};

__device__ __forceinline__ Chunk chunk_at(const Operand& operand, unsigned number) {
    const unsigned line = static_cast<unsigned long long>(number) * operand.reciprocal >> operand.shift;
    const unsigned col = (number - line * operand.across) * CHUNK;
    const unsigned z = operand.stride == 0 ? 0 : line / operand.rows, row = line - z * operand.rows;
    return {z * operand.stride + row * operand.ld + col, operand.cols - col,
            number + static_cast<size_t>(line) * operand.gap};
}

// For chunks whose granules may extend beyond the operand.
__device__ __forceinline__ uint4 load_elementwise(const Element* from, unsigned left) {
    unsigned words[CHUNK / 2];
#pragma unroll
    for (unsigned i = 0; i < CHUNK / 2; ++i) {
        words[i] = 2 * i < left ? from[2 * i] : 0;
        if (2 * i + 1 < left) words[i] |= static_cast<unsigned>(from[2 * i + 1]) << 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
align_copy(const Operand a, const Operand b) {
    pdl_launch_dependents();
    const bool first = blockIdx.x < a.blocks;
    const Operand operand = first ? a : b;
    const unsigned begin = (first ? blockIdx.x : blockIdx.x - a.blocks) * (AT_ONCE * THREADS) + threadIdx.x;
    const unsigned address = reinterpret_cast<size_t>(operand.source) / sizeof(Element);
    uint4* const target = reinterpret_cast<uint4*>(operand.target);
    const auto exists = [&](unsigned i) { return begin + i * THREADS < operand.total; };
    const uint4* pairs[AT_ONCE];            // of granules; null if they extend beyond the operand
    bool both[AT_ONCE];                     // whether the second granule has elements of the chunk
    unsigned skew[AT_ONCE], left[AT_ONCE];  // elements from the first granule's start to the chunk; left in its row
    size_t indices[AT_ONCE];
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; ++i) {
        const Chunk chunk = chunk_at(operand, min(begin + i * THREADS, operand.total - 1));
        left[i] = chunk.left;
        indices[i] = chunk.index;
        skew[i] = (address + static_cast<unsigned>(chunk.start)) % CHUNK;
        const long long from = chunk.start - skew[i];
        const bool inside = from >= 0 && from + 2 * CHUNK <= operand.extent;
        pairs[i] = inside ? reinterpret_cast<const uint4*>(operand.source + from) : nullptr;
        both[i] = inside & (skew[i] + min(left[i], CHUNK) > CHUNK);
    }

    pdl_wait();
    uint4 granules[AT_ONCE][2];
    unsigned elementwise = 0;  // a bit for each chunk
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; ++i) {
        granules[i][0] = pairs[i] ? pairs[i][0] : make_uint4(0, 0, 0, 0);
        granules[i][1] = both[i] ? pairs[i][1] : make_uint4(0, 0, 0, 0);
        elementwise |= (pairs[i] == nullptr) << i;
    }
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; ++i) {
        const uint4 chunk = shifted(granules[i][0], granules[i][1], skew[i]);
        if (exists(i)) target[indices[i]] = first_of(chunk, left[i]);
    }
    for (unsigned i = 0; elementwise >> i; ++i) {
        if (!(elementwise >> i & 1) || !exists(i)) continue;
        const Chunk chunk = chunk_at(operand, begin + i * THREADS);
        target[chunk.index] = load_elementwise(operand.source + chunk.start, chunk.left);
    }
}
