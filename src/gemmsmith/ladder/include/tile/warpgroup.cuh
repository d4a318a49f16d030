// What a group of 128 threads does with slices: multiply them as they arrive, hand them back, and finish its sums.
#pragma once

#include "epilogue/epilogue.cuh"
#include "tile/operand_tile.cuh"

constexpr int GROUP_THREADS = 128;

// Starts the products of DEPTH slices that lie one after another: this group's `Tiles` tiles of 64 rows, from number
// `first` on, with all columns. Without `accumulate` the old sums are dropped.
template <class In, class TileA, class TileB, int Cols, int Depth = 1, int Tiles>
__device__ __forceinline__ void multiply_slice(float (&sums)[Tiles][Cols / 2], unsigned slice, int first,
                                               bool accumulate) {
    wgmma_fence();
#pragma unroll
    for (int part = 0; part < Depth; ++part)
#pragma unroll
        for (int step = 0; step < BK / 16; ++step)
#pragma unroll
            for (int i = 0; i < Tiles; ++i) {
                const unsigned a = slice + part * (TileA::BYTES + TileB::BYTES), b = a + TileA::BYTES;
                Wgmma<In, Cols, TileA::K_MAJOR, TileB::K_MAJOR>::multiply(
                    sums[i], TileA::descriptor(a, first + i, step), TileB::descriptor(b, 0, step),
                    accumulate || part + step > 0);
            }
    wgmma_commit();
}

// Sums up the products of one or more stages of DEPTH slices. Those of one stage run while the next one is waited for;
// `release(stage)` is called once those of a stage are done, so that it may be filled again. A stage may be longer than
// its slices.
template <class In, class TileA, class TileB, int Cols, int Depth = 1,
          unsigned STAGE = Depth * (TileA::BYTES + TileB::BYTES), int Tiles, int Stages, class Release>
__device__ __forceinline__ void multiply_slices(float (&sums)[Tiles][Cols / 2], Ring<Stages>& ring, unsigned slices,
                                                unsigned full, int steps, int first, const Release& release) {
    int before = 0;
    for (int k = 0; k < steps; ++k) {
        barrier_wait(full + 8 * ring.stage, ring.parity);
        multiply_slice<In, TileA, TileB, Cols, Depth>(sums, slices + ring.stage * STAGE, first, k > 0);
        wgmma_wait<1>();
        if (k > 0) release(before);
        before = ring.stage;
        ring.advance();
    }
    wgmma_wait<0>();
    release(before);
}

// Columns of sums that are finished together: a box row of 16-bit outputs where possible.
template <int Cols>
constexpr int CHUNK = Cols % 64 == 0 ? 64 : Cols % 32 == 0 ? 32 : 16;

// Hands out a thread's sums of 64 rows in chunks of columns: row of the first half (the second is 8 further down),
// column of the first pair.
template <int Cols, class Store>
__device__ __forceinline__ void for_each_chunk(float (&sums)[Cols / 2], const Store& store) {
    constexpr int COLS = CHUNK<Cols>;
    for_each_row(reinterpret_cast<float (&)[Cols / COLS][COLS / 2]>(sums), store);
}

// Stores the sums of a group straight from registers, two neighbours at a time.
template <int Cols, int Tiles, class Out>
__device__ __forceinline__ void store_sums(const Window<Out>& c, int row, float (&sums)[Tiles][Cols / 2],
                                           const Finish<Out>& finish, bool whole) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int i = 0; i < Tiles; ++i)
        for_each_chunk<Cols>(sums[i], [&](int chunk, const float (&part)[CHUNK<Cols> / 2]) {
#pragma unroll
            for (int j = 0; j < CHUNK<Cols> / 8; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    store_finished<2, 2>(c, row + i * 64 + warp * 16 + half * 8 + lane / 4,
                                         chunk * CHUNK<Cols> + j * 8 + lane % 4 * 2, &part[j * 4 + half * 2], finish,
                                         whole);
        });
}

// A block of one producer and N consumer groups starts with equal shares of the 65,536 registers. The producer needs
// few: what it gives back the consumers take, so that more than 128 sums a thread fit.
template <int Consumers, int Sums>
struct Registers {
    static constexpr int PRODUCER = Consumers == 3 ? 32 : Sums > 192 ? 24 : Sums > 128 ? 40 : 56;
    static constexpr int CONSUMER = Consumers == 3 ? 160 : Sums > 192 ? 240 : Sums > 128 ? 232 : 224;
};
template <int Consumers, int Sums>
__device__ __forceinline__ void give_back_registers() {
    if constexpr (Consumers > 1)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers<Consumers, Sums>::PRODUCER));
}
template <int Consumers, int Sums>
__device__ __forceinline__ void take_registers() {
    if constexpr (Consumers > 1)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers<Consumers, Sums>::CONSUMER));
}
