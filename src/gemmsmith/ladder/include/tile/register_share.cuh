// How producer and consumer warpgroups divide registers where an SM may run two blocks.
#pragma once

#include "tile/warpgroup.cuh"

// One block has all registers of an SM (RegisterBudget). Of two, each starts with half: 128 for each of 256 threads. Its
// producer keeps 40, and its one consumer takes over the rest.
template <int Blocks, int Consumers, int Accumulators>
__device__ __forceinline__ void producer_keeps_its_share() {
    if constexpr (Blocks == 1)
        producer_dealloc_registers<Consumers, Accumulators>();
    else
        warpgroup_reg_dealloc<40>();
}
template <int Blocks, int Consumers, int Accumulators>
__device__ __forceinline__ void consumer_takes_its_share() {
    if constexpr (Blocks == 1)
        consumer_alloc_registers<Consumers, Accumulators>();
    else
        warpgroup_reg_alloc<216>();
}
