// Thread block clusters: a block's rank, the cluster barrier, and stores into another block's shared memory.
#pragma once

#include "tile/vector.cuh"

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The barrier of all threads of the cluster: in two steps, with work in between, or in one.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
// Without release: for threads that have written nothing the others read.
__device__ __forceinline__ void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

// Loads a float from the shared memory of block `rank`, at the address that `address` is in this block.
__device__ __forceinline__ float load_cluster_4(unsigned address, unsigned rank) {
    float x;
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\nld.shared::cluster.f32 %0, [there];\n}"
        : "=f"(x) : "r"(address), "r"(rank) : "memory");
    return x;
}

// Loads 16 bytes from the shared memory of block `rank`, at the address that `address` is in this block.
__device__ __forceinline__ Vec<float, 4> load_cluster_16(unsigned address, unsigned rank) {
    Vec<float, 4> four;
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %4, %5;\n"
        "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}"
        : "=f"(four.at[0]), "=f"(four.at[1]), "=f"(four.at[2]), "=f"(four.at[3]) : "r"(address), "r"(rank) : "memory");
    return four;
}

// Stores into the shared memory of block `rank`, at the address that `address` is in this block. The bytes are counted
// by the mbarrier at `barrier` in that block.
__device__ __forceinline__ void st_async(unsigned address, unsigned barrier, unsigned rank, unsigned value) {
    asm volatile(
        "{\n.reg .b32 there, counter;\n"
        "mapa.shared::cluster.u32 there, %0, %2;\nmapa.shared::cluster.u32 counter, %1, %2;\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [there], %3, [counter];\n}"
        ::"r"(address), "r"(barrier), "r"(rank), "r"(value) : "memory");
}
__device__ __forceinline__ void st_async(unsigned address, unsigned barrier, unsigned rank, float x, float y) {
    asm volatile(
        "{\n.reg .b32 there, counter;\n"
        "mapa.shared::cluster.u32 there, %0, %2;\nmapa.shared::cluster.u32 counter, %1, %2;\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%3, %4}, [counter];\n}"
        ::"r"(address), "r"(barrier), "r"(rank), "f"(x), "f"(y) : "memory");
}
