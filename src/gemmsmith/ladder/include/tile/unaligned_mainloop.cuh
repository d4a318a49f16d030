// The mainloops of a product whose A is unaligned (unaligned_tile.cuh). All threads of the producer warpgroup copy A;
// consumers read fragments of A into registers while the wgmmas of the previous k-tile run. A stage holds the k-tiles
// of B, then those of A.
#pragma once

#include "ptx/wgmma_from_registers.cuh"
#include "tile/unaligned_tile.cuh"
#include "tile/warpgroup.cuh"

// k-tiles of B at column `col` of matrix z, loaded by TMA at the request of thread 0.
template <class Tile, int K_TILES>
struct TmaTile {
    const TensorMap& map;
    int col, z;

    __device__ __forceinline__ void begin_load(unsigned stage, unsigned barrier, unsigned k, int thread) const {
        if (thread > 0) return;
        mbarrier_arrive_expect_tx(barrier, K_TILES * Tile::BYTES);
#pragma unroll
        for (int i = 0; i < K_TILES; ++i) Tile::load(stage + i * Tile::BYTES, map, barrier, col, k + i * BK, z);
    }
    __device__ __forceinline__ void finish_load(unsigned, unsigned, unsigned, int) const {}
};

// Producer: loads the stages in `range`. Every thread copies its share of A; `tile_b` loads B (TmaTile or ShiftedTile).
template <class TileB, int Stages, class Unaligned, class LoadB>
__device__ __forceinline__ void unaligned_producer_mainloop(Ring<Stages>& ring, unsigned stages, unsigned full,
                                                            unsigned empty, const KTileRange& range,
                                                            const Unaligned& tile_a, LoadB& tile_b) {
    constexpr int K_TILES = Unaligned::K_TILES;
    constexpr int A_OFFSET = K_TILES * TileB::BYTES, STAGE_BYTES = A_OFFSET + Unaligned::BYTES;
    const int thread = threadIdx.x % WARPGROUP_THREADS;
    typename Unaligned::template Loader<WARPGROUP_THREADS> loader(tile_a, range.begin * K_TILES * BK, thread);
    for (int i = range.begin; i < range.end; ++i) {
        const unsigned stage = stages + ring.stage * STAGE_BYTES, barrier = full + 8 * ring.stage;
        const int k = i * K_TILES * BK;
        mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
        tile_b.begin_load(stage, barrier, k, thread);
        if (tile_a.inside(k))
            loader.load(stage + A_OFFSET, thread);
        else
            loader.load_guarded(tile_a, stage + A_OFFSET, k, thread);
        cp_async_mbarrier_arrive(barrier);
        tile_b.finish_load(stage, barrier, k, thread);
        loader.advance(tile_a);
        ring.advance();
    }
}

// Consumer: as consumer_mainloop, but every thread releases a stage for itself, since every thread reads it.
template <class In, class TileB, int Cols, int MTiles, int Stages, class Unaligned, class Release>
__device__ __forceinline__ void unaligned_consumer_mainloop(float (&acc)[MTiles][Cols / 2], Ring<Stages>& ring,
                                                            unsigned stages, unsigned full, int count,
                                                            const Unaligned& tile_a, int first,
                                                            const Release& release) {
    constexpr int K_TILES = Unaligned::K_TILES;
    constexpr unsigned A_OFFSET = K_TILES * TileB::BYTES, STAGE_BYTES = A_OFFSET + Unaligned::BYTES;
    typename Unaligned::Offsets offsets[MTiles];
#pragma unroll
    for (int i = 0; i < MTiles; ++i) offsets[i] = tile_a.offsets(first + i);
    unsigned a[2][MTiles][BK / 16][4];  // double-buffered: the wgmmas of the previous k-tile still read the other half
    int previous = 0;
    for (int k = 0; k < count; ++k) {
        mbarrier_wait(full + 8 * ring.stage, ring.parity);
        const unsigned stage = stages + ring.stage * STAGE_BYTES;
#pragma unroll
        for (int d = 0; d < K_TILES; ++d) {
#pragma unroll
            for (int i = 0; i < MTiles; ++i)
#pragma unroll
                for (int step = 0; step < BK / 16; ++step)
                    Unaligned::load_fragment(a[d % 2][i][step], stage + A_OFFSET, offsets[i], d * BK + step * 16);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < BK / 16; ++step)
#pragma unroll
                for (int i = 0; i < MTiles; ++i)
                    WgmmaFromRegisters<In, Cols, TileB::K_MAJOR>::multiply(
                        acc[i], a[d % 2][i][step], TileB::descriptor(stage + d * TileB::BYTES, 0, step),
                        k + d + step > 0);
            wgmma_commit();
            wgmma_wait<K_TILES == 1 ? 0 : 1>();
            if (K_TILES > 1 && d == 0 && k > 0) release(previous);
        }
        if (K_TILES == 1) release(ring.stage);
        previous = ring.stage;
        ring.advance();
    }
    wgmma_wait<0>();
    if (K_TILES > 1) release(previous);
}
