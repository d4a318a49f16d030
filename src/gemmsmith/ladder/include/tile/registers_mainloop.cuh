// The mainloop of a product whose A is split in registers (fp32_tile.cuh), and whose B has been split into bf16 terms.
#pragma once

#include "ptx/wgmma_from_registers.cuh"
#include "tile/fp32_tile.cuh"
#include "tile/split_terms.cuh"
#include "tile/warpgroup.cuh"

constexpr int TERMS = 3;

// Sums products of bf16 terms over `count` stages: in the tensor core over one k-tile, rounded to nearest beyond.
// A stage holds a k-tile of the tall operand, then the terms of the short one. Every thread calls `release(stage)` once
// its wgmmas of a stage have completed.
template <class Tall, class Short, bool Compensated, int COUNT, int Stages, class Release>
__device__ __forceinline__ void registers_mainloop(float (&acc)[COUNT], Ring<Stages>& ring, unsigned stages,
                                                   unsigned full, int count, const typename Tall::Offsets& offsets,
                                                   const Release& release) {
    constexpr int STAGE_BYTES = Tall::BYTES + TERMS * Short::BYTES;
    float error[COUNT], product[COUNT];
#pragma unroll
    for (int j = 0; j < COUNT; ++j) acc[j] = error[j] = 0.0f;
    for (int k = 0; k < count; ++k) {
        mbarrier_wait(full + 8 * ring.stage, ring.parity);
        const unsigned tall = stages + ring.stage * STAGE_BYTES, terms_of_short = tall + Tall::BYTES;
        unsigned terms[BK / 16][TERMS][4];
#pragma unroll
        for (int step = 0; step < BK / 16; ++step) Tall::load_split(terms[step], tall, offsets, step);
        wgmma_fence();
#pragma unroll
        for (int p = 0; p < Split<TERMS>::PRODUCTS; ++p)
#pragma unroll
            for (int step = 0; step < BK / 16; ++step) {
                constexpr auto of = [](int i) { return Split<TERMS>::product(i); };
                WgmmaFromRegisters<__nv_bfloat16, COUNT * 2, Short::K_MAJOR>::multiply(
                    product, terms[step][of(p).a], Short::descriptor(terms_of_short + of(p).b * Short::BYTES, 0, step),
                    p + step > 0);
            }
        wgmma_commit();
        wgmma_wait<0>();
        release(ring.stage);
        ring.advance();
#pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            const float sum = __fadd_rn(acc[j], product[j]);
            if (Compensated) error[j] = __fadd_rn(error[j], __fsub_rn(product[j], __fsub_rn(sum, acc[j])));
            acc[j] = sum;
        }
    }
    if (Compensated)
#pragma unroll
        for (int j = 0; j < COUNT; ++j) acc[j] = __fadd_rn(acc[j], error[j]);
}
