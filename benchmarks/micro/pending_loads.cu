// How many lines an SM has on their way from L2 at a time: bursts of loads of growing size, which all miss L1.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a pending_loads.cu -o pending_loads && ./pending_loads
//
// Blocks of "warps" warps, one on each of "sms" SMs. All warps issue "loads" loads or copies each, wait for them, and meet at a barrier; then
// the next burst, of other lines. All lines are in L2. "lines": that one access touches; "sectors": of each. "cycles": of a burst, the mean
// of 16; "kilobytes": that a burst fetches. Every line of the output is a JSON object.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

constexpr int BURSTS = 16;
enum Kind { WORDS, VECTORS, HALF_LINES, SECTORS, COPIES, COPIES_L1 };
static const char* NAMES[] = {"ld.global.u32", "ld.global.v4", "ld.global.v4, half lines", "ld.global.u32, single sectors", "cp.async.cg of 16 bytes", "cp.async.ca of 16 bytes"};
__host__ __device__ constexpr int lines_of(int kind) { return kind == WORDS ? 1 : kind == SECTORS ? 32 : kind == HALF_LINES ? 8 : 4; }
__host__ __device__ constexpr int sectors_of(int kind) { return kind == SECTORS ? 1 : kind == HALF_LINES ? 2 : 4; }

template <int KIND, int LOADS> __global__ void __launch_bounds__(1024) bursts(const unsigned char* data, unsigned* out, long long* told) {
    extern __shared__ unsigned char room[];
    unsigned target = __cvta_generic_to_shared(room) + threadIdx.x * 16;
    int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    size_t offset = KIND == WORDS ? lane * 4 : KIND == SECTORS ? lane * 128 : KIND == HALF_LINES ? lane / 4 * 128 + lane % 4 * 16 : lane * 16;
    size_t span = size_t(lines_of(KIND)) * 128;
    const unsigned char* mine = data + size_t(blockIdx.x) * BURSTS * warps * LOADS * span + threadIdx.x / 32 * span + offset;
    unsigned sum = 0;
    long long all = 0;
    for (int b = 0; b < BURSTS; ++b) {
        uint4 v[LOADS] = {};
        __syncthreads();
        long long begin = now();
#pragma unroll
        for (int n = 0; n < LOADS; ++n) {
            const unsigned char* from = mine + (size_t(b) * LOADS + n) * warps * span;
            if (KIND == WORDS || KIND == SECTORS) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v[n].x) : "l"(from));
            if (KIND == VECTORS || KIND == HALF_LINES)
                asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v[n].x), "=r"(v[n].y), "=r"(v[n].z), "=r"(v[n].w) : "l"(from));
            if (KIND == COPIES) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(from) : "memory");
            if (KIND == COPIES_L1) asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(target), "l"(from) : "memory");
        }
        if (KIND >= COPIES) asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
        for (int n = 0; n < LOADS; ++n) sum += v[n].x ^ v[n].y ^ v[n].z ^ v[n].w;
        if (sum == 12345) *out = sum;
        __syncthreads();
        all += now() - begin;
    }
    if (threadIdx.x == 0) told[blockIdx.x] = all;
}

static unsigned char* g_data;
static long long* g_told;

template <int KIND, int LOADS> static void tell(int sms, int warps) {
    size_t need = size_t(sms) * BURSTS * warps * LOADS * lines_of(KIND) * 128;
    if (need > (size_t(24) << 20)) return;  // all of it stays in L2
    static long long host[256];
    for (int n = 0; n < 3; ++n) bursts<KIND, LOADS><<<sms, warps * 32, warps * 512>>>(g_data, (unsigned*)(g_told + 1000), g_told);
    CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, g_told, 8 * sms, cudaMemcpyDeviceToHost));
    double cycles = 0;
    for (int n = 0; n < sms; ++n) cycles += double(host[n]) / BURSTS / sms;
    printf("{\"what\": \"%s\", \"sms\": %d, \"warps\": %d, \"loads\": %d, \"lines\": %d, \"sectors\": %d, \"kilobytes\": %.2f, \"cycles\": %.1f}\n", NAMES[KIND], sms, warps,
           LOADS, lines_of(KIND), sectors_of(KIND), warps * LOADS * lines_of(KIND) * sectors_of(KIND) / 32.0, cycles);
    fflush(stdout);
}

template <int KIND> static void tell_all(int sms) {
    for (int warps : {4, 8, 16, 32}) tell<KIND, 1>(sms, warps), tell<KIND, 2>(sms, warps), tell<KIND, 3>(sms, warps), tell<KIND, 4>(sms, warps), tell<KIND, 6>(sms, warps), tell<KIND, 8>(sms, warps), tell<KIND, 12>(sms, warps);
}

int main() {
    CHECK(cudaMalloc(&g_data, 64 << 20)), CHECK(cudaMemset(g_data, 0, 64 << 20)), CHECK(cudaMalloc(&g_told, 16384));
    for (int sms : {1, 16}) tell_all<WORDS>(sms), tell_all<VECTORS>(sms), tell_all<HALF_LINES>(sms), tell_all<SECTORS>(sms), tell_all<COPIES>(sms), tell_all<COPIES_L1>(sms);
    return 0;
}
