// How long a load of shared memory takes while other warps of its sub-core multiply at full rate.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a lds_beside_ffma.cu -o lds_beside_ffma && ./lds_beside_ffma
//
// One block on one SM. One warp of each sub-core follows a chain of loads, "bytes" a lane, each of which gives the next address; "users": FFMA
// that use each result before the next load. "multiplying" other warps of each sub-core run FFMA;
// "first": the warp that loads has the lowest number of its sub-core, otherwise the highest. "cycles": from one load of the chain to the next.
// "ffma": FFMA of a sub-core's other warps a cycle. Every line of the output is a JSON object.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

constexpr int LOADS = 2048, UNROLLED = 32;

template <int BYTES, int USERS> __global__ void __launch_bounds__(1024) loop(int first, float seed, float* out, long long* told) {
    __shared__ alignas(16) unsigned words[4096];
    __shared__ volatile int done;
    unsigned base = __cvta_generic_to_shared(words);
    for (int n = threadIdx.x; n < 4096; n += blockDim.x) words[n] = base + n / 4 * 16;  // every word leads to its own vector
    if (threadIdx.x == 0) done = 0;
    __syncthreads();
    int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
    bool loads = first ? warp < 4 : warp >= warps - 4;
    if (loads) {
        unsigned at = base + lane * BYTES / 16 * 16;
        float sum = seed;
        long long begin = now();
#pragma unroll 1
        for (int n = 0; n < LOADS / UNROLLED; ++n) {
#pragma unroll
            for (int u = 0; u < UNROLLED; ++u) {
                uint4 v = {};
                if (BYTES == 4) asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v.x) : "r"(at));
                if (BYTES == 16) asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at));
                at = v.x;
#pragma unroll
                for (int f = 0; f < USERS; ++f) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sum) : "f"(__uint_as_float(v.x)), "f"(seed));
            }
        }
        long long end = now();
        done = 1;
        if (sum == 12345.f) *out = sum + at;
        if (warp % 4 == 0 && lane == 0) told[0] = end - begin;
        return;
    }
    float a[8], b = seed, c = seed + 1;
    for (int n = 0; n < 8; ++n) a[n] = seed * n;
    long long begin = now(), count = 0;
    while (!done) {
#pragma unroll
        for (int n = 0; n < 256; ++n) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(a[n % 8]) : "f"(b), "f"(c));
        count += 256;
    }
    long long end = now();
    float sum = 0;
    for (int n = 0; n < 8; ++n) sum += a[n];
    if (sum == 12345.f) *out = sum;
    if (warp % 4 == 0 && lane == 0) told[1 + warp / 4] = count * 1000000 / (end - begin);
}

static float* g_out;
static long long* g_told;

template <int BYTES, int USERS> static void tell(int others, int first) {
    long long host[16] = {};
    for (int n = 0; n < 3; ++n) {
        CHECK(cudaMemset(g_told, 0, 128));
        loop<BYTES, USERS><<<1, 128 * (others + 1)>>>(first, 1.5f, g_out, g_told);
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaMemcpy(host, g_told, 128, cudaMemcpyDeviceToHost));
    double rate = 0;
    for (int n = 1; n < 16; ++n) rate += host[n] / 1e6;
    printf("{\"bytes\": %d, \"users\": %d, \"multiplying\": %d, \"first\": %d, \"cycles\": %.2f, \"ffma\": %.3f}\n", BYTES, USERS, others, first, double(host[0]) / LOADS, rate);
    fflush(stdout);
}

int main() {
    CHECK(cudaMalloc(&g_out, 256)), CHECK(cudaMalloc(&g_told, 128));
    for (int first = 1; first >= 0; --first)
        for (int others : {0, 1, 2, 3, 7}) tell<4, 0>(others, first), tell<16, 0>(others, first), tell<16, 8>(others, first);
    return 0;
}
