// What a consumer warpgroup (128 threads) does with the k-tiles of a ring: multiply them as they arrive, and release
// their stages. Also how producer and consumer warpgroups divide the registers of a block.
#pragma once

#include "ptx/mbarrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "tile/operand_tile.cuh"
#include "tile/ring.cuh"

constexpr int WARPGROUP_THREADS = 128;

// A value that all threads of a warp have. Where Told, it comes from a shuffle, so that the compiler knows that: what
// depends on it alone, such as the stage and the descriptors of a mainloop, is then kept in uniform registers.
template <bool Told>
__device__ __forceinline__ int same_in_warp(int value) {
    return Told ? __shfl_sync(0xFFFFFFFF, value, 0) : value;
}

// Nothing to do in between.
struct Nothing {
    __device__ __forceinline__ void operator()() const {}
};
template <class Work>
constexpr bool IS_NOTHING = false;
template <>
constexpr bool IS_NOTHING<Nothing> = true;

// Starts the wgmma instructions of one stage, which holds Depth k-tiles. This warpgroup computes MTiles tiles of 64
// rows, starting with number `first`, by all Cols columns. Without `accumulate` the old accumulators are discarded.
// `started()` is called after the first of them, which is a group of its own.
template <class In, class TileA, class TileB, int Cols, int Depth = 1, int MTiles, class Started = Nothing>
__device__ __forceinline__ void wgmma_stage(float (&acc)[MTiles][Cols / 2], unsigned stage, int first,
                                            bool accumulate, const Started& started = {}) {
    wgmma_fence();
#pragma unroll
    for (int k_tile = 0; k_tile < Depth; ++k_tile)
#pragma unroll
        for (int step = 0; step < BK / 16; ++step)
#pragma unroll
            for (int i = 0; i < MTiles; ++i) {
                const unsigned a = stage + k_tile * (TileA::BYTES + TileB::BYTES), b = a + TileA::BYTES;
                Wgmma<In, Cols, TileA::K_MAJOR, TileB::K_MAJOR>::multiply(
                    acc[i], TileA::descriptor(a, first + i, step), TileB::descriptor(b, 0, step),
                    accumulate || k_tile + step > 0);
                if (!IS_NOTHING<Started> && k_tile + step + i == 0) {
                    wgmma_commit();
                    started();
                }
            }
    wgmma_commit();
}

// Whether the stage before is released behind the first wgmma of a stage, not behind the last. On an H200 0.9 %
// less time in the mean over 15 configurations with such long stages, 0.6 % more over 14 with shorter ones.
template <int MTiles, int Cols, int Depth>
constexpr bool RELEASES_BEHIND_FIRST = MTiles * Depth * Cols >= 256;

// The mainloop of a consumer: accumulates `count` stages, at least one. The wgmmas of one stage run while the next
// stage is awaited. `release(stage)` is called once the wgmmas of a stage have completed, so that it may be refilled. A
// stage may be larger than its k-tiles (StageBytes).
template <class In, class TileA, class TileB, int Cols, int Depth = 1,
          unsigned StageBytes = Depth * (TileA::BYTES + TileB::BYTES), int MTiles, int Stages, class Release>
__device__ __forceinline__ void consumer_mainloop(float (&acc)[MTiles][Cols / 2], Ring<Stages>& ring, unsigned stages,
                                                  unsigned full, int count, int first, const Release& release) {
    int previous = 0;
    bool held = false;  // whether there is a stage `previous`
    for (int k = 0; k < count; ++k) {
        const auto release_previous = [&] {
            wgmma_wait<1>();
            if (held) release(previous);
        };
        mbarrier_wait(full + 8 * ring.stage, ring.parity);
        const unsigned stage = stages + ring.stage * StageBytes;
        if constexpr (RELEASES_BEHIND_FIRST<MTiles, Cols, Depth>) {
            wgmma_stage<In, TileA, TileB, Cols, Depth>(acc, stage, first, k > 0, release_previous);
        } else {
            wgmma_stage<In, TileA, TileB, Cols, Depth>(acc, stage, first, k > 0);
            release_previous();
        }
        previous = ring.stage;
        held = true;
        ring.advance();
    }
    wgmma_wait<0>();
    release(previous);
}

// A block of one producer and N consumer warpgroups starts with equal shares of the 65,536 registers. The producer
// needs few; the consumers take over what it gives up, so that more than 128 accumulators per thread fit.
template <int Consumers, int Accumulators>
struct RegisterBudget {
    static constexpr int PRODUCER = Consumers == 3 ? 32 : Accumulators > 192 ? 24 : Accumulators > 128 ? 40 : 56;
    static constexpr int CONSUMER = Consumers == 3 ? 160 : Accumulators > 192 ? 240 : Accumulators > 128 ? 232 : 224;
};
template <int Consumers, int Accumulators>
__device__ __forceinline__ void producer_dealloc_registers() {
    if constexpr (Consumers > 1) warpgroup_reg_dealloc<RegisterBudget<Consumers, Accumulators>::PRODUCER>();
}
template <int Consumers, int Accumulators>
__device__ __forceinline__ void consumer_alloc_registers() {
    if constexpr (Consumers > 1) warpgroup_reg_alloc<RegisterBudget<Consumers, Accumulators>::CONSUMER>();
}
