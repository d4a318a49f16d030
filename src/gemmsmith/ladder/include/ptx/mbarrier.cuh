// Barriers in shared memory (mbarrier) that count arrivals and bytes, and what else holds a cluster together.
//
// A barrier is in a phase, 0 or 1 by turns. A phase is over once all expected arrivals have come and all expected bytes
// have landed; `wait(b, parity)` returns when the phase of that parity is over. On a fresh barrier a wait for parity 1
// returns at once: the phase before the first one counts as over.
#pragma once

#include "ptx/pdl.cuh"
#include "ptx/shared_address.cuh"

__device__ __forceinline__ void barrier_init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes fresh barriers visible to the copy engine and to the other blocks of the cluster.
__device__ __forceinline__ void barrier_init_done() {
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}

// Arrives, and tells the barrier to wait for so many bytes as well.
__device__ __forceinline__ void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at the same barrier of another block of the cluster.
__device__ __forceinline__ void barrier_arrive_at(unsigned barrier, unsigned rank) {
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(rank) : "memory");
}

__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
    unsigned over = 0;
    while (!over)
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
            : "=r"(over) : "r"(barrier), "r"(parity) : "memory");
}

// A ring of stages: which one is next, and the parity of its phase.
template <int Stages>
struct Ring {
    int stage = 0;
    unsigned parity = 0;
    __device__ __forceinline__ void advance() {
        if (++stage == Stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of all blocks of the cluster meet: in two steps, with work in between, or in one.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

// Threads of one group meet: `id` 1 to 15, each used by one group only (0 is __syncthreads).
__device__ __forceinline__ void group_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Two floats into the shared memory of a block of the cluster, counted in bytes by that block's barrier.
__device__ __forceinline__ void send(unsigned address, unsigned barrier, unsigned rank, float x, float y) {
    asm volatile(
        "{\n.reg .b32 there, counter;\n"
        "mapa.shared::cluster.u32 there, %0, %2;\nmapa.shared::cluster.u32 counter, %1, %2;\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%3, %4}, [counter];\n}"
        ::"r"(address), "r"(barrier), "r"(rank), "f"(x), "f"(y) : "memory");
}

// Two floats into the block's own shared memory; who arrives at a barrier afterwards vouches for them.
__device__ __forceinline__ void keep(unsigned address, float x, float y) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}
