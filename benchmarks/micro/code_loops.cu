// What a loop costs by the length of its code, and a branch that is taken: the instruction caches.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a code_loops.cu -o code_loops && ./code_loops
//
// One block; 1 to 8 warps on each sub-core run a loop of BODY independent FFMA, 16 bytes each. "round": cycles of one round,
// less BODY for each warp of the sub-core: what the loop's end and its fetches cost. "spread": warps start far apart, each
// after a delay of its own, so that they fetch different code. "skips": every BODY instructions a branch forward is taken,
// over 64 instructions; 0 of 16 such branches, or all of them. "pieces": the same without a branch.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }
#define STEP(n) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(c[(n) % 14]) : "f"(c[14 + (n) % 2]))

__device__ __forceinline__ void leave(const float (&c)[16], float* out, long long* times, long long took) {
    float sum = 0;
    for (int n = 0; n < 16; ++n) sum += c[n];
    if (sum == 12345) *out = sum;
    if (threadIdx.x % 32 == 0) times[threadIdx.x / 32] = took;
}

template <int BODY> __global__ void __launch_bounds__(1024) loop(float* out, long long* times, int rounds, int spread) {
    float c[16];
    for (int n = 0; n < 16; ++n) c[n] = threadIdx.x * n;
    __syncthreads();
    for (long long until = now() + threadIdx.x / 128 * spread; now() < until;) {}
    long long before = now();
#pragma unroll 1
    for (int pass = 0; pass < rounds; ++pass)
#pragma unroll
        for (int n = 0; n < BODY; ++n) STEP(n);
    leave(c, out, times, now() - before);
}

template <int BODY> __global__ void __launch_bounds__(1024) skips(float* out, long long* times, int rounds, int taken) {
    float c[16];
    for (int n = 0; n < 16; ++n) c[n] = threadIdx.x * n;
    __syncthreads();
    long long before = now();
#pragma unroll 1
    for (int pass = 0; pass < rounds; ++pass)
#pragma unroll
        for (int part = 0; part < 16; ++part) {
#pragma unroll
            for (int n = 0; n < BODY; ++n) STEP(n);
            if (taken == part + 100) {
#pragma unroll
                for (int n = 0; n < 64; ++n) STEP(n);
            }
        }
    leave(c, out, times, now() - before);
}

static float* g_out;
static long long *g_times, g_host[32];

template <class Kernel> static double longest(Kernel kernel, int warps, int rounds, int given) {
    for (int n = 0; n < 3; ++n) kernel<<<1, 128 * warps>>>(g_out, g_times, rounds, given);
    CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(g_host, g_times, sizeof(long long) * 4 * warps, cudaMemcpyDeviceToHost));
    double most = 0;
    for (int n = 0; n < 4 * warps; ++n) most = most > g_host[n] ? most : g_host[n];
    return most;
}

template <int BODY> static void tell() {
    for (int spread : {0, BODY / 2 + 37})
        for (int warps : {1, 2, 4, 8}) {
            if (spread && warps == 1) continue;
            double round = (longest(loop<BODY>, warps, 96, spread) - longest(loop<BODY>, warps, 32, spread)) / 64;
            printf("{\"instructions\": %d, \"warps\": %d, \"spread\": %d, \"round\": %.1f, \"more\": %.1f}\n", BODY, warps, spread, round, round - double(BODY) * warps);
        }
    fflush(stdout);
}

template <int BODY> static void tell_skips() {
    for (int warps : {1, 2, 4}) {
        double round = (longest(skips<BODY>, warps, 96, 0) - longest(skips<BODY>, warps, 32, 0)) / 64;
        printf("{\"skips\": %d, \"warps\": %d, \"round\": %.1f, \"more_each\": %.2f}\n", BODY, warps, round, (round - 16.0 * BODY * warps) / 16);
    }
    fflush(stdout);
}

int main() {
    CHECK(cudaMalloc(&g_out, 4096)), CHECK(cudaMalloc(&g_times, 8192));
    tell<16>(), tell<32>(), tell<48>(), tell<64>(), tell<96>(), tell<112>(), tell<128>(), tell<144>(), tell<160>(), tell<192>(), tell<256>();
    tell<320>(), tell<384>(), tell<512>(), tell<768>(), tell<1024>(), tell<1280>(), tell<1536>(), tell<1792>(), tell<2048>(), tell<2560>(), tell<3072>(), tell<4096>();
    tell_skips<16>(), tell_skips<32>(), tell_skips<64>(), tell_skips<128>();
    return 0;
}
