// TMA (tensor memory accelerator): one thread requests a whole box of a matrix, and an mbarrier signals its arrival in
// shared memory. On loads, elements outside the matrix are filled with zeros. On stores they are not written, with one
// restriction: a row is written in units of 16 bytes, so it must end on a multiple of 16 bytes.
//
// A row of a box is 128 bytes. Rows are stored one after another in the 128-byte swizzle: chunk c (16 bytes) of row r
// is at c ^ (r % 8). wgmma reads this layout without bank conflicts. What it reads must start on a multiple of 1024
// bytes; the swizzle follows the address, so a box may start at any row of it. A row that is shorter than 128 bytes still
// takes 128.
#pragma once

// A tensor map: address, sizes, strides and box of a batch of matrices, as the driver encodes them.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

constexpr int BOX = 64;                   // 16-bit elements in a row of a box
constexpr int BOX_ROW = 128;              // bytes in a row of a box
constexpr int BOX_BYTES = BOX * BOX_ROW;  // bytes in a box of 64 rows

__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Loads the box at element x of row y of matrix z.
__device__ __forceinline__ void tma_load(unsigned target, const TensorMap& map, unsigned barrier, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5}], [%2];"
        ::"r"(target), "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z) : "memory");
}

// Loads the box into all blocks of the cluster whose bit in `mask` is set, at the same shared address in each. Each
// block's own barrier counts the bytes.
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

// Waits until at most Pending of this thread's store groups still read shared memory.
template <int Pending>
__device__ __forceinline__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

// Makes this thread's writes to shared memory visible to TMA, once a barrier has followed.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
