// What code costs that an SM runs for the first time since another kernel ran: straight on, or with jumps.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a cold_code.cu -o cold_code && ./cold_code
//
// INSTRUCTIONS FFMA, 16 bytes each, in groups of 32, by "warps" of a block, a block on each of "blocks" SMs. "jumps": a
// taken branch behind each group, over 32 instructions that do not run. "before": what ran on all SMs since the last
// launch: the same kernel, "code" (256 KB of other code), or "DRAM" (that, and 256 MB of data through L2). Means over
// blocks: "first" and "second", cycles of the first and the second run; "begin", nanoseconds from the end of the kernel
// before to the first block's begin.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ unsigned now() { unsigned t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory"); return t; }
__device__ __forceinline__ unsigned timer() { unsigned t; asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(t)::"memory"); return t; }

constexpr int GROUP = 32, OTHER = 16384;
struct Times { unsigned begin, end, cycles[2]; };

__device__ __forceinline__ void group(float (&c)[16]) {
#pragma unroll
    for (int n = 0; n < GROUP; ++n) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(c[n % 14]) : "f"(c[14 + n % 2]));
}

template <int INSTRUCTIONS, bool JUMPS> __global__ void __launch_bounds__(256) code(float* out, int taken, Times* times) {
    unsigned begin = timer();
    float c[16];
    for (int n = 0; n < 16; ++n) c[n] = threadIdx.x * n;
    unsigned cycles[2];
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        __syncthreads();
        unsigned before = now();
#pragma unroll
        for (int n = 0; n < INSTRUCTIONS / GROUP; ++n) {
            group(c);
            if (JUMPS && taken == n) group(c);
        }
        unsigned after = now();
        if (pass == 0) cycles[0] = after - before;
        cycles[1] = after - before;
    }
    float sum = 0;
    for (int n = 0; n < 16; ++n) sum += c[n];
    if (sum == 12345) *out = sum;
    if (threadIdx.x == 0) times[blockIdx.x] = {begin, timer(), {cycles[0], cycles[1]}};
}

__global__ void __launch_bounds__(128) other(float* out, Times* times) {
    float c[16];
    for (int n = 0; n < 16; ++n) c[n] = threadIdx.x * n;
#pragma unroll
    for (int n = 0; n < OTHER / GROUP; ++n) group(c);
    float sum = 0;
    for (int n = 0; n < 16; ++n) sum += c[n];
    if (sum == 12345) *out = sum;
    if (threadIdx.x == 0) times[blockIdx.x].end = timer();
}

__global__ void read_all(const uint4* data, size_t count, unsigned* out, Times* times) {
    unsigned sum = 0;
    for (size_t n = blockIdx.x * size_t(blockDim.x) + threadIdx.x; n < count; n += size_t(gridDim.x) * blockDim.x) sum += data[n].x;
    if (sum == 12345) *out = sum;
    if (threadIdx.x == 0) times[blockIdx.x].end = timer();
}

static char* g_data;
static float* g_out;
static Times *g_times, *g_before;

template <int INSTRUCTIONS, bool JUMPS> static void tell() {
    static Times host[132], earlier[528];
    const char* names[] = {"same", "code", "DRAM"};
    for (int before = 0; before < 3; ++before)
        for (int blocks : {1, 132})
            for (int warps : {1, 4, 8}) {
                double first = 0, second = 0, begin = 0;
                constexpr int launches = 10, skipped = 2;
                for (int n = 0; n < launches; ++n) {
                    if (before > 0) other<<<132, 128>>>(g_out, g_before);
                    if (before > 1) read_all<<<528, 256>>>((uint4*)g_data, (256 << 20) / 16, (unsigned*)g_out, g_before);
                    if (before == 0) code<INSTRUCTIONS, JUMPS><<<132, 32 * warps>>>(g_out, -1, g_before);
                    code<INSTRUCTIONS, JUMPS><<<blocks, 32 * warps>>>(g_out, -1, g_times);
                    CHECK(cudaDeviceSynchronize());
                    CHECK(cudaMemcpy(host, g_times, sizeof(Times) * blocks, cudaMemcpyDeviceToHost));
                    int count = before > 1 ? 528 : 132;
                    CHECK(cudaMemcpy(earlier, g_before, sizeof(Times) * count, cudaMemcpyDeviceToHost));
                    if (n < skipped) continue;
                    int gap = 1 << 30;
                    for (int b = 0; b < blocks; ++b) {
                        first += double(host[b].cycles[0]) / blocks, second += double(host[b].cycles[1]) / blocks;
                        int last = -(1 << 30);
                        for (int e = 0; e < count; ++e) last = int(earlier[e].end - host[b].begin) > last ? int(earlier[e].end - host[b].begin) : last;
                        gap = -last < gap ? -last : gap;
                    }
                    begin += gap;
                }
                constexpr int timed = launches - skipped;
                printf("{\"instructions\": %d, \"jumps\": %d, \"before\": \"%s\", \"blocks\": %d, \"warps\": %d, \"first\": %.0f, \"second\": %.0f, \"begin\": %.0f}\n", INSTRUCTIONS,
                       JUMPS, names[before], blocks, warps, first / timed, second / timed, begin / timed);
                fflush(stdout);
            }
}

template <int INSTRUCTIONS> static void both() { tell<INSTRUCTIONS, false>(), tell<INSTRUCTIONS, true>(); }

int main() {
    CHECK(cudaMalloc(&g_data, 256 << 20)), CHECK(cudaMemset(g_data, 0, 256 << 20)), CHECK(cudaMalloc(&g_out, 4096));
    CHECK(cudaMalloc(&g_times, 65536)), CHECK(cudaMalloc(&g_before, 65536));
    both<64>(), both<128>(), both<256>(), both<512>(), both<1024>(), both<2048>(), both<4096>();
    return 0;
}
