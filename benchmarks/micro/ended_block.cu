// What an H200 does when a thread accesses the shared memory of a block of its cluster that has ended.
//
//     nvcc -arch=sm_90a -lineinfo -o ended_block ended_block.cu && ./ended_block MODE WAIT_CLOCKS BLOCKS
//
// Rank 1 of each cluster ends; rank 0 waits, then accesses rank 1. MODE 0: nothing, 1: a load, 2: a store, 3: an atomic
// addition, 4: an arrival at an mbarrier; 9 to 12: the same, but both ranks meet at a cluster barrier before they end.
// The simulator calls 1 to 4 access-of-ended-block, and finds nothing in 0 and 9 to 12:
//     gemmsmith check ended_block.cu --grid 4 --block 128 --smem 8192 --args 'mode=1, wait_clocks=100, wrong=zeros(1,u32)'
#include <cstdint>
#include <cstdio>
#include <cstdlib>

__device__ __forceinline__ uint32_t smem_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ uint32_t rank_of_block() { uint32_t r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ uint32_t mapped(uint32_t a, uint32_t rank) { uint32_t r; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank)); return r; }
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

extern "C" __global__ __cluster_dims__(2, 1, 1) void access_ended(int mode, long long wait_clocks, unsigned* wrong) {
    extern __shared__ __align__(16) unsigned words[];
    const unsigned mine = 0x10000u + blockIdx.x;
    const int count = 1024;
    for (int i = threadIdx.x; i < count; i += blockDim.x) words[i] = mine;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem_address(words + count)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cluster_sync();
    if (rank_of_block() == 0) {
        const long long begun = clock64();
        while (clock64() - begun < wait_clocks) {}
        const uint32_t other = mapped(smem_address(words + threadIdx.x), 1);
        if ((mode & 7) == 1) {
            unsigned value;
            asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(other) : "memory");
            if (value != mine + 1) atomicAdd(wrong, 1u);
        } else if ((mode & 7) == 2) {
            asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(other), "r"(0xdeadbeefu) : "memory");
        } else if ((mode & 7) == 3) {
            unsigned value;
            asm volatile("atom.shared::cluster.add.u32 %0, [%1], 1;" : "=r"(value) : "r"(other) : "memory");
            if (value != mine + 1) atomicAdd(wrong, 1u);
        } else if ((mode & 7) == 4 && threadIdx.x == 0) {
            const uint32_t barrier = mapped(smem_address(words + count), 1);
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
        }
    } else if (mode < 8) {
        return;  // ends while rank 0 still waits
    }
    if (mode >= 8) cluster_sync();
    if ((mode & 7) == 2 && rank_of_block() == 0) {  // has somebody else's store reached this block?
        for (int i = threadIdx.x; i < count; i += blockDim.x)
            if (words[i] != mine) atomicAdd(wrong, 1u);
    }
}

#ifndef __CUDACC_RTC__
int main(int argc, char** argv) {
    const int mode = argc > 1 ? atoi(argv[1]) : 1;
    const long long wait = argc > 2 ? atoll(argv[2]) : 200000;
    const int blocks = argc > 3 ? atoi(argv[3]) : 4096;
    const int smem = 100 * 1024;
    unsigned *wrong, host = 0;
    cudaMalloc(&wrong, 4);
    cudaMemset(wrong, 0, 4);
    cudaFuncSetAttribute(access_ended, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
    access_ended<<<blocks, 128, smem>>>(mode, wait, wrong);
    const cudaError_t launched = cudaGetLastError(), ran = cudaDeviceSynchronize();
    if (ran == cudaSuccess) cudaMemcpy(&host, wrong, 4, cudaMemcpyDeviceToHost);
    printf("{\"mode\": %d, \"wait\": %lld, \"blocks\": %d, \"launch\": \"%s\", \"run\": \"%s\", \"wrong\": %u}\n", mode, wait, blocks,
           cudaGetErrorName(launched), cudaGetErrorName(ran), host);
    return ran != cudaSuccess;
}
#endif
