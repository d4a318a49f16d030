// repack: operands in rows that start on 16 bytes, before a product that takes no others.
//
// Idea      A tensor map describes only rows that start on 16 bytes. Other operands are copied first, both by one
//           launch: 16 bytes at a time on both sides, although the source's rows begin anywhere. A chunk of 8 elements
//           lies across two aligned granules of the source; both are loaded and shifted together.
// Owns      Chunks are numbered along the rows of the copy, which follow each other without a gap, matrix by matrix. A
//           block owns AT_ONCE * THREADS of them, a thread every THREADS-th, so that its loads are all in flight
//           together. The first blocks are A's, the others B's; an operand that is fine as it is has none.
//
//           source   |......ab|cdefghij|klmnop..|    granules; this row begins 6 elements after a boundary
//           target   |abcdefgh|ijklmnop|             chunks; the columns up to the next multiple of 8 become zero
//
//           Longer rows of the target start on 128 bytes, though 16 would do: else those of a slice, 128 bytes each,
//           would lie across two lines of the cache, and the product would read five sectors for four.
// Budget    8 registers for each of AT_ONCE chunks; no shared memory. Every granule is loaded twice, the second time
//           out of L1.
// Needs     Source: elements of 2 bytes, any even address, leading dimension and stride. Target: starts on 16 bytes; it
//           does not overlap the source.
// Edges     A granule at the end of a row also has elements of what follows, which are dropped. But nothing is read
//           before the operand's first element or after its last: chunks there go element by element.

#include "ptx/pdl.cuh"
#include "tile/shifted_chunk.cuh"

typedef unsigned short Element;  // any type of 2 bytes: nothing looks at the values
constexpr unsigned CHUNK = 8;    // elements in 16 bytes

// An operand as it is stored, and where it goes.
struct Operand {
    const Element* source;
    Element* target;
    long long ld, stride;
    long long extent;                // elements from the first to the last of all matrices
    unsigned rows, cols;             // of a matrix
    unsigned across, total, blocks;  // chunks along a row, and of all matrices; blocks that copy them
    unsigned reciprocal, shift;      // n / across = n * reciprocal >> shift, for n below 2^31
    unsigned gap;                    // chunks between rows of the target
};

// A chunk: where it begins, counted from the operand's first element, how many elements of its row are left there, and
// its place in the target.
struct Chunk {
    long long start;
    unsigned left;
    size_t place;
};

__device__ __forceinline__ Chunk chunk_at(const Operand& operand, unsigned number) {
    const unsigned line = static_cast<unsigned long long>(number) * operand.reciprocal >> operand.shift;
    const unsigned col = (number - line * operand.across) * CHUNK;
    const unsigned z = operand.stride == 0 ? 0 : line / operand.rows, row = line - z * operand.rows;
    return {z * operand.stride + row * operand.ld + col, operand.cols - col,
            number + static_cast<size_t>(line) * operand.gap};
}

// Whose granules may reach beyond the operand.
__device__ __forceinline__ uint4 load_slowly(const Element* from, unsigned left) {
    unsigned words[CHUNK / 2];
#pragma unroll
    for (unsigned i = 0; i < CHUNK / 2; ++i) {
        words[i] = 2 * i < left ? from[2 * i] : 0;
        if (2 * i + 1 < left) words[i] |= static_cast<unsigned>(from[2 * i + 1]) << 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
repack(const Operand a, const Operand b) {
    start_next();
    const bool first = blockIdx.x < a.blocks;
    const Operand operand = first ? a : b;
    const unsigned begin = (first ? blockIdx.x : blockIdx.x - a.blocks) * (AT_ONCE * THREADS) + threadIdx.x;
    const unsigned place = reinterpret_cast<size_t>(operand.source) / sizeof(Element);
    uint4* const target = reinterpret_cast<uint4*>(operand.target);
    const auto is_there = [&](unsigned i) { return begin + i * THREADS < operand.total; };
    const uint4* pairs[AT_ONCE];              // of granules; none where they reach beyond the operand
    bool both[AT_ONCE];                       // whether the second granule has elements of the chunk
    unsigned before[AT_ONCE], left[AT_ONCE];  // elements from the first granule's beginning to the chunk's; of its row
    size_t places[AT_ONCE];
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; ++i) {
        const Chunk chunk = chunk_at(operand, min(begin + i * THREADS, operand.total - 1));
        left[i] = chunk.left;
        places[i] = chunk.place;
        before[i] = (place + static_cast<unsigned>(chunk.start)) % CHUNK;
        const long long from = chunk.start - before[i];
        const bool inside = from >= 0 && from + 2 * CHUNK <= operand.extent;
        pairs[i] = inside ? reinterpret_cast<const uint4*>(operand.source + from) : nullptr;
        both[i] = inside & (before[i] + min(left[i], CHUNK) > CHUNK);
    }

    wait_for_previous();
    uint4 granules[AT_ONCE][2];
    unsigned slow = 0;  // a bit for each chunk
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; ++i) {
        granules[i][0] = pairs[i] ? pairs[i][0] : make_uint4(0, 0, 0, 0);
        granules[i][1] = both[i] ? pairs[i][1] : make_uint4(0, 0, 0, 0);
        slow |= (pairs[i] == nullptr) << i;
    }
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; ++i) {
        const uint4 chunk = shifted(granules[i][0], granules[i][1], before[i]);
        if (is_there(i)) target[places[i]] = first_of(chunk, left[i]);
    }
    for (unsigned i = 0; slow >> i; ++i) {
        if (!(slow >> i & 1) || !is_there(i)) continue;
        const Chunk chunk = chunk_at(operand, begin + i * THREADS);
        target[chunk.place] = load_slowly(operand.source + chunk.start, chunk.left);
    }
}
