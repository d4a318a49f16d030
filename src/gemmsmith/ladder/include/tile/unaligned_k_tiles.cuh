// Slices of an A whose rows start anywhere (unaligned_tile.cuh), and of B beside it: a group of 128 threads brings them,
// and others multiply them, taking fragments of A into registers while the products of the slice before run. A stage
// has slices of B, then the loose ones.
#pragma once

#include "tile/unaligned_tile.cuh"
#include "tile/warpgroup.cuh"
#include "ptx/wgmma_from_registers.cuh"

// Slices of B that the copy engine brings, at column `col` of product z: thread 0 asks for them.
template <class Tile, int SLICES>
struct MappedTile {
    const TensorMap& map;
    int col, z;

    __device__ __forceinline__ void ask(unsigned slices, unsigned barrier, unsigned k, int thread) const {
        if (thread > 0) return;
        barrier_expect(barrier, SLICES * Tile::BYTES);
#pragma unroll
        for (int i = 0; i < SLICES; ++i) Tile::load(slices + i * Tile::BYTES, map, barrier, col, k + i * BK, z);
    }
    __device__ __forceinline__ void settle(unsigned, unsigned, unsigned, int) const {}
};

// Brings the stages in `range`: all threads their part of A's slices, and B's as `other` has it.
template <class TileB, int Stages, class Loose, class Other>
__device__ __forceinline__ void bring_loose(Ring<Stages>& ring, unsigned slices, unsigned full, unsigned empty,
                                            const SliceRange& range, const Loose& loose, Other& other) {
    constexpr int PARTS = Loose::SLICES, LOOSE_AT = PARTS * TileB::BYTES, STAGE = LOOSE_AT + Loose::BYTES;
    const int thread = threadIdx.x % GROUP_THREADS;
    typename Loose::template Loader<GROUP_THREADS> loader(loose, range.begin * PARTS * BK, thread);
    for (int k = range.begin; k < range.end; ++k) {
        const unsigned stage = slices + ring.stage * STAGE, barrier = full + 8 * ring.stage;
        const int at = k * PARTS * BK;
        barrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
        other.ask(stage, barrier, at, thread);
        if (loose.inside(at))
            loader.load(stage + LOOSE_AT, thread);
        else
            loader.load_guarded(loose, stage + LOOSE_AT, at, thread);
        cp_async_arrive(barrier);
        other.settle(stage, barrier, at, thread);
        loader.advance(loose);
        ring.advance();
    }
}

// As multiply_slices: sums up the products of one or more stages. Every thread releases a stage for itself.
template <class In, class TileB, int Cols, int Tiles, int Stages, class Loose, class Release>
__device__ __forceinline__ void multiply_loose(float (&sums)[Tiles][Cols / 2], Ring<Stages>& ring, unsigned slices,
                                               unsigned full, int steps, const Loose& loose, int first,
                                               const Release& release) {
    constexpr int PARTS = Loose::SLICES;
    constexpr unsigned LOOSE_AT = PARTS * TileB::BYTES, STAGE = LOOSE_AT + Loose::BYTES;
    typename Loose::Place places[Tiles];
#pragma unroll
    for (int i = 0; i < Tiles; ++i) places[i] = loose.place(first + i);
    unsigned a[2][Tiles][BK / 16][4];  // those of a slice may change once the products of the next one have begun
    int before = 0;
    for (int k = 0; k < steps; ++k) {
        barrier_wait(full + 8 * ring.stage, ring.parity);
        const unsigned stage = slices + ring.stage * STAGE;
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
#pragma unroll
            for (int i = 0; i < Tiles; ++i)
#pragma unroll
                for (int step = 0; step < BK / 16; ++step)
                    Loose::fragment(a[part % 2][i][step], stage + LOOSE_AT, places[i], part * BK + step * 16);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < BK / 16; ++step)
#pragma unroll
                for (int i = 0; i < Tiles; ++i)
                    WgmmaFromRegisters<In, Cols, TileB::K_MAJOR>::multiply(
                        sums[i], a[part % 2][i][step], TileB::descriptor(stage + part * TileB::BYTES, 0, step),
                        k + part + step > 0);
            wgmma_commit();
            wgmma_wait<PARTS == 1 ? 0 : 1>();
            if (PARTS > 1 && part == 0 && k > 0) release(before);
        }
        if (PARTS == 1) release(ring.stage);
        before = ring.stage;
        ring.advance();
    }
    wgmma_wait<0>();
    if (PARTS > 1) release(before);
}
