// The mainloop of a product whose A is split in registers (fp32_tile.cuh), and whose B has been split into bf16 terms.
#pragma once

#include "ptx/wgmma_from_registers.cuh"
#include "tile/fp32_tile.cuh"
#include "tile/split_terms.cuh"
#include "tile/warpgroup.cuh"

constexpr int TERMS = 3;

template <int Value>
struct Constant {
    static constexpr int value = Value;
};

// Sums products of bf16 terms over `count` stages: STEPS times 16 of k in the tensor core, from zero; rounded to nearest
// beyond. Terms are double-buffered: the next ones are read and split while wgmma multiplies. A stage holds a k-tile of
// the tall operand, then the terms of the short one. Every thread calls `release(stage)` once its wgmmas of a stage have
// completed.
template <class Tall, class Short, bool Compensated, int STEPS, int COUNT, int Stages, class Release>
__device__ __forceinline__ void registers_mainloop(float (&acc)[COUNT], Ring<Stages>& ring, unsigned stages,
                                                   unsigned full, int count, const typename Tall::Offsets& offsets,
                                                   const Release& release) {
    constexpr int STAGE_BYTES = Tall::BYTES + TERMS * Short::BYTES, PARTS = BK / 16 / STEPS;  // of a k-tile
    static_assert(PARTS == 1 || PARTS == 2, "two sets of terms alternate");
    float error[COUNT], product[COUNT];
    unsigned terms[2][STEPS][TERMS][4];
#pragma unroll
    for (int j = 0; j < COUNT; ++j) acc[j] = error[j] = 0.0f;
    const auto read = [&](auto buffer, unsigned stage, int part) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
            Tall::load_split(terms[decltype(buffer)::value][step], stage, offsets, part * STEPS + step);
    };
    // Multiplies part `part` of k-tile k while the terms after it are read.
    const auto multiply = [&](auto buffer, int k, int part) {
        constexpr int CURRENT = decltype(buffer)::value;
        const unsigned stage = stages + ring.stage * STAGE_BYTES, terms_of_short = stage + Tall::BYTES;
        wgmma_fence();
#pragma unroll
        for (int p = 0; p < Split<TERMS>::PRODUCTS; ++p)
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                constexpr auto of = [](int i) { return Split<TERMS>::product(i); };
                WgmmaFromRegisters<__nv_bfloat16, COUNT * 2, Short::K_MAJOR>::multiply(
                    product, terms[CURRENT][step][of(p).a],
                    Short::descriptor(terms_of_short + of(p).b * Short::BYTES, 0, part * STEPS + step), p + step > 0);
            }
        wgmma_commit();
        const int finished = ring.stage;
        if (part == PARTS - 1) {
            ring.advance();
            if (k + 1 < count) {
                mbarrier_wait(full + 8 * ring.stage, ring.parity);
                read(Constant<1 - CURRENT>(), stages + ring.stage * STAGE_BYTES, 0);
            }
        } else {
            read(Constant<1 - CURRENT>(), stage, part + 1);
        }
        wgmma_wait<0>();
        if (part == PARTS - 1) release(finished);
#pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            const float sum = __fadd_rn(acc[j], product[j]);
            if (Compensated) error[j] = __fadd_rn(error[j], __fsub_rn(product[j], __fsub_rn(sum, acc[j])));
            acc[j] = sum;
        }
    };
    mbarrier_wait(full + 8 * ring.stage, ring.parity);
    read(Constant<0>(), stages + ring.stage * STAGE_BYTES, 0);
    if constexpr (PARTS == 2) {
        for (int k = 0; k < count; ++k) {
            multiply(Constant<0>(), k, 0);
            multiply(Constant<1>(), k, 1);
        }
    } else {
        for (int k = 0; k < count; k += 2) {
            multiply(Constant<0>(), k, 0);
            if (k + 1 < count) multiply(Constant<1>(), k + 1, 0);
        }
    }
    if (Compensated)
#pragma unroll
        for (int j = 0; j < COUNT; ++j) acc[j] = __fadd_rn(acc[j], error[j]);
}
