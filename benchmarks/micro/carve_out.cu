// Launches of many shared memories, block sizes and register counts: ncu tells how much shared memory the driver set aside.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a carve_out.cu -o carve_out && ncu --metrics launch__shared_mem_config_size ./carve_out
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)

// LIVE registers besides a few
template <int LIVE> __global__ void __launch_bounds__(LIVE > 120 ? 256 : 512) held(volatile float* data) {
    float v[LIVE];
#pragma unroll
    for (int n = 0; n < LIVE; ++n) v[n] = data[n];
    __syncthreads();
#pragma unroll
    for (int n = 0; n < LIVE; ++n) data[n] = v[n];
}

template <int LIVE> static void launch(float* data, int threads, int smem) {
    CHECK(cudaFuncSetAttribute(held<LIVE>, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
    held<LIVE><<<1, threads, smem>>>(data);
    CHECK(cudaDeviceSynchronize());
}

int main() {
    float* data;
    CHECK(cudaMalloc(&data, 1 << 20)), CHECK(cudaMemset(data, 0, 1 << 20));
    for (int smem : {0, 1024, 3072, 7168, 11264, 16384, 24576, 32768, 48128, 65536, 81920, 99328, 131072})
        for (int threads : {64, 128, 256, 512}) launch<16>(data, threads, smem);
    for (int smem : {0, 4096, 8192, 16384, 24576, 32768, 49152, 65536, 98304, 131072, 196608}) {
        launch<96>(data, 256, smem), launch<96>(data, 128, smem);
        launch<144>(data, 256, smem), launch<144>(data, 128, smem);
    }
    return 0;
}
