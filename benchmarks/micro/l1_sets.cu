// Which lines L1 can hold at the same time: lines that lie a power of two apart.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a l1_sets.cu -o l1_sets && ./l1_sets
//
// One warp reads LINES lines that lie STRIDE bytes apart, one after another, several times over (ld.global.ca, each address from
// the value before). "cycles": of one load, in the last of eight rounds; about 33 from L1, more than 250 from L2. "smem": dynamic
// shared memory of the block, which takes room from L1.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

__global__ void rings(const char* data, size_t stride, int lines, double* cycles) {
    unsigned zero = 0;
    long long begin = 0;
    for (int round = 0; round < 8; ++round) {
        begin = now();
        for (int n = 0; n < lines; ++n) asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(zero) : "l"(data + n * stride + zero) : "memory");
        begin = now() - begin + (zero ? 1 : 0);
    }
    *cycles = double(begin) / lines;
}

int main() {
    char* data;
    double *cycles, host;
    CHECK(cudaMalloc(&data, size_t(1) << 28)), CHECK(cudaMemset(data, 0, size_t(1) << 28)), CHECK(cudaMalloc(&cycles, 8));
    CHECK(cudaFuncSetAttribute(rings, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000));
    for (int smem : {0, 100000, 200000})
        for (size_t stride = 128; stride <= 131072; stride *= 2)
            for (int lines : {8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 1536, 1792}) {
                if (stride * lines > size_t(1) << 28) continue;
                rings<<<1, 1, smem>>>(data, stride, lines, cycles);
                CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(&host, cycles, 8, cudaMemcpyDeviceToHost));
                printf("{\"smem\": %d, \"stride\": %zu, \"lines\": %d, \"cycles\": %.1f}\n", smem, stride, lines, host);
            }
    return 0;
}
