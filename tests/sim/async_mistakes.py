"""Small kernels with one mistake each in their use of TMA, clusters, wgmma, and launches that depend on others.

``MISTAKE`` 0 is the correct kernel. Each kernel is compiled once; what it does wrong is a template parameter.
"""

from __future__ import annotations

CODE = r"""
#include <cuda.h>
#include <cstdint>
typedef unsigned long long Barrier;
__device__ inline unsigned shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ inline void init(Barrier* b, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared(b)), "r"(arrivals) : "memory");
}
__device__ inline void init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void expect(Barrier* b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared(b)), "r"(bytes) : "memory");
}
__device__ inline void load(const void* map, const void* to, int x, int y, Barrier* b) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared(to)), "l"(map), "r"(x), "r"(y), "r"(shared(b)) : "memory");
}
__device__ inline void multicast(const void* map, const void* to, int x, int y, Barrier* b, int mask) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(shared(to)), "l"(map), "r"(x), "r"(y), "r"(shared(b)), "h"((unsigned short)mask) : "memory");
}
__device__ inline void wait(Barrier* b, int parity) {
    asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra L; }"
                 :: "r"(shared(b)), "r"(parity) : "memory");
}
__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ inline unsigned rank() { unsigned r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ inline unsigned mapped(const void* p, unsigned rank) {
    unsigned r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(shared(p)), "r"(rank));
    return r;
}

// A launch that depends on the one before.
template <int MISTAKE> __device__ void dependent(const int* in, int* out) {
    int early = MISTAKE == 1 ? in[threadIdx.x] : 0;
    if (MISTAKE != 2 || threadIdx.x < 32) asm volatile("griddepcontrol.wait;" ::: "memory");
    if (MISTAKE == 3) __syncthreads();  // correct: the others know that warp 0 has waited
    out[threadIdx.x] = (MISTAKE == 1 ? early : in[threadIdx.x]) + 1;
}
extern "C" __global__ void dependent_right(const int* in, int* out) { dependent<0>(in, out); }
extern "C" __global__ void dependent_early(const int* in, int* out) { dependent<1>(in, out); }
extern "C" __global__ void dependent_other(const int* in, int* out) { dependent<2>(in, out); }
extern "C" __global__ void dependent_synced(const int* in, int* out) {
    if (threadIdx.x < 32) asm volatile("griddepcontrol.wait;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = in[threadIdx.x] + 1;
}

// Registers: 384 threads start with 168 each.
template <int DEC, int INC> __device__ void registers(int* out) {
    if (threadIdx.x < 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(DEC));
    else asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(INC));
    out[threadIdx.x] = threadIdx.x;
}
extern "C" __global__ void __launch_bounds__(384, 1) registers_right(int* out) { registers<24, 240>(out); }
extern "C" __global__ void __launch_bounds__(384, 1) registers_many(int* out) { registers<40, 240>(out); }
// ptxas starts a kernel that asks for 160 at most with 160; with 240 in it, the bounds decide: 168.
extern "C" __global__ void __launch_bounds__(384, 1) registers_started(int* out) { registers<40, 160>(out); }
extern "C" __global__ void __launch_bounds__(384, 1) registers_fewer(int* out) {
    if (threadIdx.x < 256) registers<24, 240>(out);
    else asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
}
extern "C" __global__ void __launch_bounds__(384, 1) registers_given(int* out) { registers<232, 232>(out); }

// A map in global memory, changed by the kernel.
template <int MISTAKE> __device__ void changed(CUtensorMap* map, unsigned* out, const float* other) {
    __shared__ alignas(1024) unsigned tile[256];
    __shared__ Barrier full;
    if (threadIdx.x == 0) {
        init(&full, 1);
        init_fence();
        asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;"
                     :: "l"(map), "l"(other) : "memory");
        asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
        if (MISTAKE != 1)
            asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
        expect(&full, 1024);
        load(map, tile, 0, 0, &full);
    }
    __syncthreads();
    wait(&full, 0);
    for (int i = threadIdx.x; i < 256; i += blockDim.x) out[i] = tile[i];
}
extern "C" __global__ void changed_right(CUtensorMap* map, unsigned* out, const float* other) {
    changed<0>(map, out, other);
}
extern "C" __global__ void changed_unfenced(CUtensorMap* map, unsigned* out, const float* other) {
    changed<1>(map, out, other);
}

// Two blocks: 1 the mask misses a block, 2 the barriers' initialisation is not waited for, 3 a block ends early,
// 4 a block ends while the other reads its memory, 5 the mask has a block too many, 6 the other block has no barrier,
// 7 the other block does not wait for what this one copies to it.
template <int MISTAKE> __device__ void pair(const void* map, unsigned* out) {
    __shared__ alignas(1024) unsigned tile[256];
    __shared__ Barrier full;
    __shared__ unsigned mine;
    if (threadIdx.x == 0) {
        if (MISTAKE != 6 || rank() == 0) init(&full, 1);
        init_fence();
        mine = 7 + rank();
    }
    if (MISTAKE == 2) __syncthreads(); else cluster_sync();
    if (threadIdx.x == 0) {
        if (MISTAKE != 6 || rank() == 0) expect(&full, 1024);
        if (rank() == 0) multicast(map, tile, 0, 0, &full, MISTAKE == 1 ? 1 : MISTAKE == 5 ? 7 : 3);
    }
    if ((MISTAKE == 3 || MISTAKE == 6) && rank() == 1) return;
    if (MISTAKE != 7 || rank() == 0) wait(&full, 0);
    for (int i = threadIdx.x; i < 256; i += blockDim.x) out[256 * blockIdx.x + i] = tile[i];
    if (MISTAKE == 2) return;
    if (rank() == 0 && threadIdx.x == 0) {
        unsigned other;
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(other) : "r"(mapped(&mine, 1)) : "memory");
        out[512] = other;
    }
    if (MISTAKE != 4 && MISTAKE != 3) cluster_sync();
}
#define PAIR(name, mistake) extern "C" __global__ void __cluster_dims__(2, 1, 1) \
    name(const __grid_constant__ CUtensorMap map, unsigned* out) { pair<mistake>(&map, out); }
PAIR(pair_right, 0)
PAIR(pair_missed, 1)
PAIR(pair_uninitialised, 2)
PAIR(pair_ended, 3)
PAIR(pair_read_ended, 4)
PAIR(pair_too_many, 5)
PAIR(pair_unset, 6)
PAIR(pair_unwaited, 7)

// One product of a warpgroup, A and B by TMA with a swizzle of 128 bytes: 1 another swizzle, 2 another stride,
// 3 another start, 4 too few bytes are expected, 5 the wrong parity, 6 no fence, 7 accumulators before the wait,
// 8 no wait for the tile, 9 another arrival is expected, 10 the copies are issued behind the product, 11 only A's bytes
// are expected, 12 a second phase ends before the other warps have waited for the first. 13 is no mistake: some lanes
// of a warp copy an accumulator, as compilers do, and nobody uses the copy.
__device__ inline unsigned long long descriptor(unsigned start, unsigned stride, unsigned long long swizzle) {
    return (start >> 4 & 0x3FFF) | (unsigned long long)1 << 16 | (unsigned long long)(stride >> 4) << 32 |
           swizzle << 62;
}
template <int MISTAKE> __device__ void product(const void* map_a, const void* map_b, float* out) {
    __shared__ alignas(1024) unsigned short a[64 * 64], b[8 * 64];
    __shared__ Barrier full;
    if (threadIdx.x == 0) {
        init(&full, MISTAKE == 9 ? 2 : 1);
        init_fence();
        if (MISTAKE != 10) {
            expect(&full, (MISTAKE == 4 ? -64 : MISTAKE == 11 ? -128 * 8 : 0) + 128 * 72);
            load(map_a, a, 0, 0, &full);
            load(map_b, b, 0, 0, &full);
        }
        if (MISTAKE == 12) {
            wait(&full, 0);
            expect(&full, 0);
        }
    }
    __syncthreads();
    if (MISTAKE != 8 && MISTAKE != 10 && (MISTAKE != 12 || threadIdx.x >= 32)) wait(&full, MISTAKE == 5 ? 1 : 0);
    float d[4] = {0, 0, 0, 0};
    if (MISTAKE != 6) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 4; ++k) {
        unsigned long long of_a = descriptor(shared(a) + 32 * k + (MISTAKE == 3 ? 16 : 0), MISTAKE == 2 ? 512 : 1024,
                                             MISTAKE == 1 ? 2 : 1);
        unsigned long long of_b = descriptor(shared(b) + 32 * k, 1024, 1);
        asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;"
                     "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(of_a), "l"(of_b));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (MISTAKE == 7) out[threadIdx.x] = __fadd_rn(d[0], 1.0f);
    if (MISTAKE == 13 && threadIdx.x % 32) asm volatile("{ .reg .f32 c; mov.f32 c, %0; }" :: "f"(d[0]));
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (MISTAKE == 10 && threadIdx.x == 0) {
        expect(&full, 128 * 72);
        load(map_a, a, 0, 0, &full);
        load(map_b, b, 0, 0, &full);
    }
    if (MISTAKE == 10) wait(&full, 0);
    for (int i = 0; i < 4; ++i) out[128 * i + threadIdx.x] = d[i];
}
#define PRODUCT(name, mistake) extern "C" __global__ void __launch_bounds__(128) \
    name(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* out) { \
    product<mistake>(&a, &b, out); }
PRODUCT(product_right, 0)
PRODUCT(product_swizzle, 1)
PRODUCT(product_stride, 2)
PRODUCT(product_start, 3)
PRODUCT(product_bytes, 4)
PRODUCT(product_parity, 5)
PRODUCT(product_unfenced, 6)
PRODUCT(product_early, 7)
PRODUCT(product_unwaited, 8)
PRODUCT(product_arrivals, 9)
PRODUCT(product_before, 10)
PRODUCT(product_of_a, 11)
PRODUCT(product_overtaken, 12)
PRODUCT(product_copied, 13)

// A store by TMA: 1 no proxy fence, 2 the source is reused too early, 3 the group is not committed, which is no mistake
// here, as the kernel waits for nothing else; 4 and 5: a load by TMA fills the source again, too early and in time;
// 6: cp.async does so, too early.
__device__ alignas(16) unsigned zeros[4];
template <int MISTAKE> __device__ void stored(const void* map) {
    __shared__ alignas(1024) unsigned tile[256];
    __shared__ Barrier full;
    if (MISTAKE > 3 && threadIdx.x == 0) {
        init(&full, 1);
        init_fence();
    }
    for (int i = threadIdx.x; i < 256; i += blockDim.x) tile[i] = i;
    if (MISTAKE != 1) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(map), "r"(0), "r"(0), "r"(shared(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (MISTAKE == 6) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.wait_all;"
                         :: "r"(shared(tile + 8)), "l"(zeros) : "memory");
        }
        if (MISTAKE != 2 && MISTAKE != 4) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        if (MISTAKE < 4) tile[5] = 99;
        if (MISTAKE == 4 || MISTAKE == 5) {
            expect(&full, 1024);
            load(map, tile, 32, 0, &full);  // beyond the matrix: zeros
        }
    }
    if (MISTAKE == 4 || MISTAKE == 5) wait(&full, 0);
    if (MISTAKE == 4 && threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
#define STORED(name, mistake) extern "C" __global__ void name(const __grid_constant__ CUtensorMap map) { \
    stored<mistake>(&map); }
STORED(stored_right, 0)
STORED(stored_unfenced, 1)
STORED(stored_reused, 2)
STORED(stored_reloaded, 4)
STORED(stored_reloaded_right, 5)
STORED(stored_recopied, 6)
"""
