// What a load from L2 costs the data stage of L1 and shared memory: warps read shared memory at full rate, and load beside it.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a fills.cu -o fills && ./fills
//
// A block of 32 warps on one SM. Every warp reads shared memory SHARED times, one wavefront each, then loads once from
// global memory, with LANES lanes side by side in a line and WIDTH bytes a lane; it uses what it loaded a step later.
// "hits" 1: always the same lines. "cycles_per_load": beyond the same loop without loads. Copies: "copies" of them are one
// group, and a warp waits for the group before; 0: the commit and the wait alone, "cycles_per_load" is theirs.
// Every line of the output is a JSON object.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

constexpr int STEPS = 256, SHARED = 32;

// WIDTH 0: no load. KIND 0: ld.global, 1: cp.async of 16 bytes, past L1, 2: of 4 bytes.
template <int WIDTH, int KIND, int COPIES> __global__ void __launch_bounds__(1024) loop(const unsigned char* data, int lanes, int hits, unsigned* out, long long* cycles) {
    __shared__ unsigned words[8192];
    for (int n = threadIdx.x; n < 8192; n += 1024) words[n] = 0;
    __syncthreads();
    unsigned at = __cvta_generic_to_shared(words) + threadIdx.x * 4, warp = threadIdx.x / 32, lane = threadIdx.x % 32, sum = 0;
    unsigned target = __cvta_generic_to_shared(words) + threadIdx.x % 1024 * 16;
    int lines = 32 / lanes;
    const unsigned char* mine = data + (size_t(warp) * lines + lane / lanes) * 128 + lane % lanes * WIDTH;
    uint4 v = {}, before = {};
    long long begin = now();
    for (int s = 0; s < STEPS; ++s) {
        before = v;
        const unsigned char* from = mine + (hits ? 0 : size_t(s) * 32 * lines * 128);
        if (WIDTH == 4 && KIND == 0) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v.x) : "l"(from));
        if (WIDTH == 16 && KIND == 0)
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
#pragma unroll
        for (int n = 0; n < COPIES; ++n) {
            const unsigned char* one = from + (hits ? 0 : size_t(n) * 32 * lines * 128 * STEPS);
            if (KIND == 1) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(one) : "memory");
            if (KIND == 2) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(one) : "memory");
        }
        if (KIND) asm volatile("cp.async.commit_group;\ncp.async.wait_group 1;" ::: "memory");
#pragma unroll
        for (int n = 0; n < SHARED; ++n) {
            unsigned word;
            asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(word) : "r"(at + n % 4 * 4096));
            sum += word;
        }
        sum += before.x + before.y + before.z + before.w;
    }
    if (sum == 12345) *out = sum;
    __syncthreads();
    if (threadIdx.x == 0) *cycles = now() - begin;
}

static unsigned char* g_data;
static long long* g_cycles;
static double g_alone;

template <int WIDTH, int KIND, int COPIES = 1> static void tell(const char* what, int lanes, int hits) {
    long long host = 0;
    for (int n = 0; n < 3; ++n) loop<WIDTH, KIND, COPIES><<<1, 1024>>>(g_data, lanes, hits, (unsigned*)g_cycles + 64, g_cycles);
    CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(&host, g_cycles, 8, cudaMemcpyDeviceToHost));
    double each = double(host) / STEPS / 32;
    if (!WIDTH) g_alone = each;
    printf("{\"what\": \"%s\", \"lanes_a_line\": %d, \"hits\": %d, \"copies\": %d, \"cycles_per_step\": %.2f, \"cycles_per_load\": %.2f}\n", what, lanes, hits,
           KIND ? COPIES : 0, each, (each - g_alone) / (COPIES ? COPIES : 1));
    fflush(stdout);
}

int main() {
    CHECK(cudaMalloc(&g_data, size_t(160) << 20)), CHECK(cudaMemset(g_data, 0, size_t(160) << 20)), CHECK(cudaMalloc(&g_cycles, 4096));
    tell<0, 0>("no load", 32, 1);
    for (int hits = 1; hits >= 0; --hits) {
        for (int lanes : {32, 16, 8, 4}) tell<4, 0>("ld.global.u32", lanes, hits);
        for (int lanes : {8, 4, 2}) tell<16, 0>("ld.global.v4", lanes, hits);
        tell<16, 1, 0>("commit and wait", 8, hits);
        for (int lanes : {8, 4, 2}) tell<16, 1>("cp.async of 16 bytes", lanes, hits), tell<16, 1, 4>("cp.async of 16 bytes", lanes, hits);
        tell<16, 1, 2>("cp.async of 16 bytes", 8, hits);
        for (int lanes : {32, 16}) tell<4, 2>("cp.async of 4 bytes", lanes, hits), tell<4, 2, 4>("cp.async of 4 bytes", lanes, hits);
    }
    return 0;
}
