// What an H200 does when a block ends before its bulk stores have read their source in shared memory.
//
//     nvcc -arch=sm_90a -o ended_store ended_store.cu && ./ended_store MODE BLOCKS PIECE_BYTES
//
// Each block fills its shared memory with its own number, stores it by cp.async.bulk, and ends; the next block of the SM
// fills the same memory at once. MODE 0: it ends without a wait, 1: after cp.async.bulk.wait_group.read, 2: it overwrites
// the memory itself, without a wait, before it ends (the stores are slow enough for this to be seen), 3: the same after
// the wait. "wrong" counts the words of the output that are not the block's number.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

constexpr int kBytes = 192 * 1024;

extern "C" __global__ void store_and_end(int mode, int piece, unsigned* out) {
    extern __shared__ __align__(128) unsigned words[];
    for (int i = threadIdx.x; i < kBytes / 4; i += blockDim.x) words[i] = blockIdx.x + 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint32_t source = static_cast<uint32_t>(__cvta_generic_to_shared(words));
        char* target = reinterpret_cast<char*>(out) + static_cast<size_t>(blockIdx.x) * kBytes;
        for (int at = 0; at < kBytes; at += piece)
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(target + at), "r"(source + at), "r"(piece)
                         : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (mode & 1) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    if (mode < 2) return;
    __syncthreads();
    for (int i = threadIdx.x; i < kBytes / 4; i += blockDim.x) words[i] = 0xdeadbeefu;
}

extern "C" __global__ void count_wrong(const unsigned* out, unsigned long long* wrong) {
    const unsigned* mine = out + static_cast<size_t>(blockIdx.x) * (kBytes / 4);
    unsigned long long found = 0;
    for (int i = threadIdx.x; i < kBytes / 4; i += blockDim.x) found += mine[i] != blockIdx.x + 1;
    if (found) atomicAdd(wrong, found);
}

#ifndef __CUDACC_RTC__
int main(int argc, char** argv) {
    const int mode = argc > 1 ? atoi(argv[1]) : 0;
    const int blocks = argc > 2 ? atoi(argv[2]) : 132 * 64;
    const int piece = argc > 3 ? atoi(argv[3]) : 16384;
    unsigned* out;
    unsigned long long *wrong, host = 0;
    cudaMalloc(&out, static_cast<size_t>(blocks) * kBytes);
    cudaMalloc(&wrong, 8);
    cudaMemset(wrong, 0, 8);
    cudaFuncSetAttribute(store_and_end, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    for (int round = 0; round < 10; ++round) {
        cudaMemset(out, 0, static_cast<size_t>(blocks) * kBytes);
        store_and_end<<<blocks, 512, kBytes>>>(mode, piece, out);
        count_wrong<<<blocks, 256>>>(out, wrong);
    }
    const cudaError_t ran = cudaDeviceSynchronize();
    if (ran == cudaSuccess) cudaMemcpy(&host, wrong, 8, cudaMemcpyDeviceToHost);
    printf("{\"mode\": %d, \"blocks\": %d, \"piece\": %d, \"rounds\": 10, \"run\": \"%s\", \"wrong_words\": %llu}\n", mode, blocks, piece,
           cudaGetErrorName(ran), host);
    return ran != cudaSuccess;
}
#endif
