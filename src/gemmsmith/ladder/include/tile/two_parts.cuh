// A consumer of 128 rows as two parts of 64: outputs of one part are stored while the tensor cores multiply the other.
//
//     part 0   ... products | stored | products of the next tile ...
//     part 1   ...   products   |         | stored | products of the next tile ...
//
// Part 0 is stored during the last products of part 1, part 1 during the first ones of part 0 of the next tile. Until then
// its sums are kept, times alpha: ptxas inserts a wait for all products before others read registers that products have
// written, but not before they read what was computed from those.
#pragma once

#include "tile/warpgroup.cuh"

// One tile. `behind_first()` is called once the first products of part 0 have started, and may use the registers of part
// 1; `store_first()` when part 0 is complete. Part 1 is complete on return.
template <class In, class TileA, class TileB, int Cols, int Stages, class Release, class Behind, class Store>
__device__ __forceinline__ void two_part_mainloop(float (&part_0)[1][Cols / 2], float (&part_1)[1][Cols / 2],
                                                  Ring<Stages>& ring, unsigned stages, unsigned full, int count,
                                                  int first, const Release& release, const Behind& behind_first,
                                                  const Store& store_first) {
    const auto stage = [&] { return stages + ring.stage * (TileA::BYTES + TileB::BYTES); };
    mbarrier_wait(full + 8 * ring.stage, ring.parity);
    wgmma_stage<In, TileA, TileB, Cols>(part_0, stage(), first, false);
    behind_first();
    wgmma_stage<In, TileA, TileB, Cols>(part_1, stage(), first + 1, false);
    int previous = ring.stage;
    ring.advance();
    for (int k = 1; k < count; ++k) {
        mbarrier_wait(full + 8 * ring.stage, ring.parity);
        wgmma_stage<In, TileA, TileB, Cols>(part_0, stage(), first, true, [&] {
            wgmma_wait<1>();
            release(previous);
        });
        wgmma_stage<In, TileA, TileB, Cols>(part_1, stage(), first + 1, true);
        previous = ring.stage;
        ring.advance();
    }
    wgmma_wait<1>();
    store_first();
    wgmma_wait<0>();
    release(previous);
}

// All tiles of a consumer, whose first 64-row tile is number `first`: `count` stages each. `for_each_tile` calls a body
// with width, row, column and product of each; `store(sums, m_tile, row, col, z, scale)` stores 64 rows.
template <class In, class TileA, class TileB, int Cols, int Stages, class Tiles, class Release, class Store>
__device__ __forceinline__ void compute_in_two_parts(Ring<Stages>& ring, unsigned stages, unsigned full, int count,
                                                     int first, float alpha, const Tiles& for_each_tile,
                                                     const Release& release, const Store& store) {
    float part_0[1][Cols / 2], part_1[1][Cols / 2], later[1][Cols / 2];  // later: part 1 of the tile before, times alpha
    int row_before = -1, col_before = 0, z_before = 0;
    // Stores a copy: what storing does to it must not reach the registers of the next products.
    const auto store_copy = [&](const float (&sums)[1][Cols / 2], int m_tile, int row, int col, int z, float scale) {
        float copy[1][Cols / 2];
#pragma unroll
        for (int i = 0; i < Cols / 2; ++i) copy[0][i] = sums[0][i];
        store(copy, m_tile, row, col, z, scale);
    };
    const auto store_later = [&] {
        if (row_before >= 0) store_copy(later, first + 1, row_before, col_before, z_before, 1.0f);
    };
    for_each_tile([&](auto, int row, int col, int z, unsigned) {
        two_part_mainloop<In, TileA, TileB, Cols>(part_0, part_1, ring, stages, full, count, first, release, store_later,
                                                  [&] { store_copy(part_0, first, row, col, z, alpha); });
#pragma unroll
        for (int i = 0; i < Cols / 2; ++i) later[0][i] = __fmul_rn(alpha, part_1[0][i]);
        row_before = row, col_before = col, z_before = z;
    });
    store_later();
}
