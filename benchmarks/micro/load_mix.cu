// What a load that L1 has, and a store to shared memory, cost the memory unit: alone, and between loads of shared memory.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a load_mix.cu -o load_mix && ./load_mix
//
// A block of 32 warps on one SM. In a step every warp does OTHERS accesses of one kind and SHARED loads of shared
// memory, one wavefront each: "mixed" 1: evenly spread among them, 0: one after the other. "cycles_per_step" is of one warp: the
// step's cycles by the number of warps. "cycles_per_access": of one of the others, beyond a cycle for each load of shared memory.
// Addresses grow by a parameter, zero, so that the compiler cannot keep what was loaded. Every line of the output is a JSON object.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

constexpr int STEPS = 128;
enum Kind { LINE, BROADCAST, HALVES, PAIR, QUAD, ROWS, STORE, STORE_PAIR, STORE_QUAD, NOTHING };
static const char* NAMES[] = {"ld.global.u32, a line",       "ld.global.u32, a word for all lanes", "ld.global.u32, parts of two lines",
                              "ld.global.v2, two lines",     "ld.global.v4, four lines",            "ld.global.v4, parts of eight lines",
                              "st.shared.u32",               "st.shared.v2",                        "st.shared.v4",
                              "nothing"};

template <int KIND> __device__ __forceinline__ unsigned access(const unsigned char* from, unsigned to, unsigned value) {
    uint4 v = {};
    if (KIND <= HALVES) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v.x) : "l"(from));
    if (KIND == PAIR) asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from));
    if (KIND == QUAD || KIND == ROWS) asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    if (KIND == STORE) asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
    if (KIND == STORE_PAIR) asm volatile("st.volatile.shared.v2.u32 [%0], {%1, %1};" ::"r"(to), "r"(value) : "memory");
    if (KIND == STORE_QUAD) asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(value) : "memory");
    return v.x ^ v.y ^ v.z ^ v.w;
}

template <int KIND, int OTHERS, int SHARED, int MIXED> __global__ void __launch_bounds__(1024) loop(const unsigned char* data, int zero, unsigned* out, long long* cycles) {
    __shared__ alignas(16) unsigned words[8192];
    for (int n = threadIdx.x; n < 8192; n += 1024) words[n] = 0;
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = 0;
    unsigned base = __cvta_generic_to_shared(words), at = base + threadIdx.x * 4;
    unsigned width = KIND == STORE_QUAD ? 16 : KIND == STORE_PAIR ? 8 : 4, to = base + 16384 + (warp % 8 * 32 + lane) * width;
    size_t offset = KIND == LINE ? lane * 4 : KIND == BROADCAST ? 0 : KIND == HALVES ? lane / 16 * 128 + lane % 16 * 4 : KIND == PAIR ? lane * 8 : KIND == QUAD ? lane * 16 : lane / 4 * 128 + lane % 4 * 16;
    const unsigned char* from = data + offset + warp % 4 * 1024;
    for (int n = 0; n < 2; ++n) sum += access<KIND>(from, to, sum);
    __syncthreads();
    long long begin = now();
    constexpr int EACH = OTHERS ? (SHARED + OTHERS - 1) / OTHERS : SHARED;
#pragma unroll 1
    for (int s = 0; s < STEPS; ++s) {
        unsigned found[OTHERS + 1], read[SHARED + 1];
        if (!MIXED)
#pragma unroll
            for (int n = 0; n < OTHERS; ++n) found[n] = access<KIND>(from += zero, to, lane + s);
        int next = 0;
#pragma unroll
        for (int n = 0; n < (SHARED > OTHERS ? SHARED : OTHERS); ++n) {
            if (MIXED && n % (EACH ? EACH : 1) == 0 && next < OTHERS) found[next] = access<KIND>(from += zero, to, lane + s), ++next;
            if (n < SHARED) asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(read[n]) : "r"(at + n % 4 * 4096));
        }
#pragma unroll
        for (int n = 0; n < OTHERS; ++n) sum ^= found[n];
#pragma unroll
        for (int n = 0; n < SHARED; ++n) sum ^= read[n];
    }
    __syncthreads();
    long long end = now();
    if (sum == 12345) *out = sum;
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - begin;
}

static unsigned char* g_data;
static long long* g_cycles;

template <int KIND, int OTHERS, int SHARED, int MIXED = 1> static void tell() {
    long long host[2] = {};
    for (int n = 0; n < 3; ++n) loop<KIND, OTHERS, SHARED, MIXED><<<1, 1024>>>(g_data, 0, (unsigned*)g_cycles + 64, g_cycles);
    CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, g_cycles, 8, cudaMemcpyDeviceToHost));
    double step = double(host[0]) / STEPS / 32;
    printf("{\"what\": \"%s\", \"others\": %d, \"shared\": %d, \"mixed\": %d, \"cycles_per_step\": %.3f, \"cycles_per_access\": %.3f}\n", NAMES[KIND], OTHERS, SHARED, MIXED,
           step, OTHERS ? (step - SHARED) / OTHERS : 0.0);
    fflush(stdout);
}

template <int KIND> static void tell_all() {
    tell<KIND, 8, 0>();
    tell<KIND, 1, 1>(), tell<KIND, 1, 2>(), tell<KIND, 1, 4>(), tell<KIND, 1, 8>(), tell<KIND, 1, 16>(), tell<KIND, 1, 32>();
    tell<KIND, 4, 16>(), tell<KIND, 4, 16, 0>(), tell<KIND, 8, 16>(), tell<KIND, 8, 16, 0>();
}

int main() {
    CHECK(cudaMalloc(&g_data, 1 << 20)), CHECK(cudaMemset(g_data, 0, 1 << 20)), CHECK(cudaMalloc(&g_cycles, 4096));
    tell<NOTHING, 0, 8>(), tell<NOTHING, 0, 16>(), tell<NOTHING, 0, 32>();
    tell_all<LINE>(), tell_all<BROADCAST>(), tell_all<HALVES>(), tell_all<PAIR>(), tell_all<QUAD>(), tell_all<ROWS>();
    tell_all<STORE>(), tell_all<STORE_PAIR>(), tell_all<STORE_QUAD>();
    return 0;
}
