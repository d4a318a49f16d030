// How long a block waits for a burst of loads, as a GEMM that is not pipelined fetches its tiles: latency under load.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a fetch_bursts.cu -o fetch_bursts && ./fetch_bursts
//
// "latency": one lane at a time loads one line, in L2 or not; cycles, as percentiles over lines.
// "burst": 256 threads of a block load 16 bytes each, "loads" times, from rows of which each gives "segment" bytes a step;
// then all wait for all, and rest for "rest" cycles. "cycles" of a burst, mean over steps and blocks. "sharers": blocks
// that read the same rows. "cold": L2 was overwritten before. Every line of the output is a JSON object.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ unsigned now() { unsigned t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory"); return t; }

__global__ void single(const unsigned char* data, int lines, size_t pitch, unsigned short* cycles) {
    unsigned sum = 0;
    for (int n = 0; n < lines; ++n) {
        unsigned begin = now(), v;
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(data + n * pitch));
        sum += v;
        if (sum == 12345) cycles[0] = 1;  // needs what was loaded; memory is zeros
        __syncthreads();
        unsigned end = now();
        cycles[n] = end - begin;
    }
}

constexpr int STEPS = 32;
template <int LOADS> __global__ void __launch_bounds__(256) burst(const unsigned char* data, size_t pitch, int segment, int sharers, int rest, unsigned* cycles) {
    int groups = (gridDim.x + sharers - 1) / sharers, rows = 4096 / segment, each = segment / 16;
    const unsigned char* mine = data + (size_t(blockIdx.x % groups) * LOADS * rows + threadIdx.x / each) * pitch + threadIdx.x % each * 16;
    unsigned total = 0, sum = 0;
    for (int s = 0; s < STEPS; ++s) {
        __syncthreads();
        unsigned begin = now();
        uint4 v[LOADS];
#pragma unroll
        for (int n = 0; n < LOADS; ++n)
            asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v[n].x), "=r"(v[n].y), "=r"(v[n].z), "=r"(v[n].w) : "l"(mine + n * rows * pitch + s * segment));
#pragma unroll
        for (int n = 0; n < LOADS; ++n) sum += v[n].x ^ v[n].y ^ v[n].z ^ v[n].w;  // all, or ptxas loads less
        if (sum == 12345) cycles[0] = s;  // needs what was loaded; memory is zeros
        __syncthreads();
        total += now() - begin;
        for (unsigned t = now(); now() - t < unsigned(rest);) {}
    }
    if (threadIdx.x == 0) cycles[blockIdx.x] = total;
}

static unsigned char* g_data;
static size_t g_bytes = size_t(2) << 30;
static unsigned* g_cycles;

template <int LOADS> static void bursts(int blocks, int segment, size_t pitch, int sharers, int rest, bool cold) {
    size_t needed = size_t((blocks + sharers - 1) / sharers) * LOADS * 4096 / segment * pitch;
    if (needed > g_bytes || (!cold && needed > (28 << 20))) return;
    static unsigned host[1024];
    double mean = 0;
    for (int n = 0; n < 3; ++n) {
        if (cold) CHECK(cudaMemset(g_data + needed, 0, std::min(g_bytes - needed, size_t(256) << 20)));
        burst<LOADS><<<blocks, 256>>>(g_data, pitch, segment, sharers, rest, g_cycles);
        CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, g_cycles, 4 * blocks, cudaMemcpyDeviceToHost));
        mean = 0;
        for (int b = 0; b < blocks; ++b) mean += double(host[b]) / blocks / STEPS;
    }
    printf("{\"what\": \"burst\", \"blocks\": %d, \"loads\": %d, \"kilobytes\": %d, \"segment\": %d, \"pitch\": %zu, \"sharers\": %d, \"rest\": %d, \"cold\": %s, \"cycles\": %.1f}\n", blocks, LOADS,
           LOADS * 4, segment, pitch, sharers, rest, cold ? "true" : "false", mean);
    fflush(stdout);
}

int main() {
    CHECK(cudaMalloc(&g_data, g_bytes)), CHECK(cudaMemset(g_data, 0, g_bytes)), CHECK(cudaMalloc(&g_cycles, 1 << 20));
    for (int cold = 0; cold < 2; ++cold) {
        const int lines = 2048;
        static unsigned short host[lines];
        if (cold) CHECK(cudaMemset(g_data + (1 << 30), 0, 256 << 20));
        for (int n = 0; n < 2 - cold; ++n) single<<<1, 1>>>(g_data, lines, 4224, (unsigned short*)g_cycles);
        CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, g_cycles, sizeof host, cudaMemcpyDeviceToHost));
        std::sort(host, host + lines);
        printf("{\"what\": \"latency\", \"cold\": %s, \"lines\": %d", cold ? "true" : "false", lines);
        for (int p : {1, 10, 25, 50, 75, 90, 99}) printf(", \"p%d\": %d", p, host[lines * p / 100]);
        printf("}\n");
    }
    for (int cold = 0; cold < 2; ++cold)
        for (int blocks : {1, 132, 264})
            for (int segment : {32, 64, 128, 512})
                for (size_t pitch : {size_t(STEPS) * segment, size_t(16384)})
                    for (int sharers : {1, 12}) {
                        if (sharers > blocks || (pitch == 16384 && !cold)) continue;
                        for (int rest : {0, 800}) {
                            bursts<1>(blocks, segment, pitch, sharers, rest, cold);
                            bursts<4>(blocks, segment, pitch, sharers, rest, cold);
                            bursts<8>(blocks, segment, pitch, sharers, rest, cold);
                        }
                    }
    return 0;
}
