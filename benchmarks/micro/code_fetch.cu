// What it costs to run code for the first time in a launch: straight-line code, run twice.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a code_fetch.cu -o code_fetch && ./code_fetch
//
// INSTRUCTIONS FFMA follow one another, 16 bytes each; four warps of a block, one on each sub-core, run them several times.
// "first", "second": cycles of the first and the second run, the mean of all blocks of the last of six launches.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

template <int INSTRUCTIONS> __global__ void __launch_bounds__(128) code(float* out, long long* times) {
    float c[16];
    for (int n = 0; n < 16; ++n) c[n] = threadIdx.x * n;
    long long before = now();
#pragma unroll 1
    for (int pass = 0; pass < 3; ++pass) {
#pragma unroll
        for (int n = 0; n < INSTRUCTIONS; ++n) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(c[n % 14]) : "f"(c[14 + n % 2]));
        long long after = now();
        if (threadIdx.x == 0) times[blockIdx.x * 3 + pass] = after - before;
        before = now();
    }
    float sum = 0;
    for (int n = 0; n < 16; ++n) sum += c[n];
    if (sum == 12345) *out = sum;
}

template <int INSTRUCTIONS> static void tell(float* out, long long* times) {
    static long long host[132 * 3];
    for (int blocks : {1, 132}) {
        for (int n = 0; n < 6; ++n) code<INSTRUCTIONS><<<blocks, 128>>>(out, times);
        CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, times, sizeof(long long) * 3 * blocks, cudaMemcpyDeviceToHost));
        double sums[2] = {};
        for (int b = 0; b < blocks; ++b) sums[0] += double(host[3 * b]) / blocks, sums[1] += double(host[3 * b + 1]) / blocks;
        printf("{\"instructions\": %d, \"blocks\": %d, \"first\": %.0f, \"second\": %.0f}\n", INSTRUCTIONS, blocks, sums[0], sums[1]);
        fflush(stdout);
    }
}

int main() {
    float* out;
    long long* times;
    CHECK(cudaMalloc(&out, 4096)), CHECK(cudaMalloc(&times, 8192));
    tell<128>(out, times), tell<512>(out, times), tell<1024>(out, times), tell<2048>(out, times), tell<4096>(out, times), tell<8192>(out, times);
    return 0;
}
