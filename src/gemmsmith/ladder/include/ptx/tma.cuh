// The copy engine (TMA): one thread asks for a whole box of a matrix, and the box is in shared memory when its barrier
// says so. What lies beyond the matrix arrives as zeros and is not written on the way back, but for one thing: a row is
// written in whole pieces of 16 bytes, so it must end on one.
//
// A box row is 128 bytes, and rows are stored one after another with the 16-byte chunks of row r exchanged by an XOR
// with r % 8: the layout from which wgmma reads without bank conflicts. So a box must start on 1024 bytes.
#pragma once

#include "ptx/mbarrier.cuh"

// Address, sizes, strides and box of a matrix (of a batch), as the driver encodes them.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

constexpr int BOX = 64;            // 16-bit elements in a row of a box
constexpr int BOX_ROW = 128;       // its bytes
constexpr int BOX_BYTES = BOX * BOX_ROW;  // 64 rows

__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// The box at element x of row y of product z.
__device__ __forceinline__ void tma_load(unsigned target, const TensorMap& map, unsigned barrier, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5}], [%2];"
        ::"r"(target), "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z) : "memory");
}

// The same box for all blocks of the cluster in `mask`, at the same place in the shared memory of each; each one's own
// barrier counts the bytes.
__device__ __forceinline__ void tma_load_multicast(unsigned target, const TensorMap& map, unsigned barrier,
                                                   unsigned short mask, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4, %5, %6}], [%2], %3;"
        ::"r"(target), "l"(&map), "r"(barrier), "h"(mask), "r"(x), "r"(y), "r"(z) : "memory");
}

__device__ __forceinline__ void tma_store(const TensorMap& map, unsigned source, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                 ::"l"(&map), "r"(source), "r"(x), "r"(y), "r"(z) : "memory");
}

__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most `Left` of this thread's groups of stores still read shared memory.
template <int Left>
__device__ __forceinline__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Left) : "memory");
}

// What this thread wrote to shared memory is visible to the copy engine after this and a barrier.
__device__ __forceinline__ void async_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
