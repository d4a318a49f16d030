// What it costs that every SM stores its tile at the same time: one block an SM, 128 x 256 floats each, cold.
//
//     nvcc -O3 -gencode arch=compute_90a,code=sm_90a stores.cu -o stores && ./stores
//
// PATTERN 0: 16 bytes a lane, 512 contiguous bytes a warp. 1: as wgmma leaves accumulators, 8 bytes a lane, four lanes side by side, eight rows.
// "issue_cycles": until the last store of a block has issued; "us": a launch of a graph, less one that stores nothing.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

template <int PATTERN> __global__ void __launch_bounds__(256) store(float* c, int pitch, int kilobytes, long long* cycles) {
    int w = threadIdx.x / 32, lane = threadIdx.x % 32, across = pitch / 256;
    float* tile = c + (long long)(blockIdx.x / across) * 128 * pitch + blockIdx.x % across * 256;
    __syncthreads();
    long long begin = now();
    for (int n = 0; n < kilobytes; ++n) {  // a kilobyte of the tile's 128 is one row of it
        if (PATTERN == 0 && n % 8 == w) {
            float* row = tile + (long long)n * pitch;
            ((float4*)row)[lane] = make_float4(n, n, n, n), ((float4*)row)[lane + 32] = make_float4(n, n, n, n);
        }
        if (PATTERN == 1 && n % 8 == 0) {  // 8 KB: every warp 16 rows by 16 columns
            float* at = tile + (long long)(w * 16 + lane / 4) * pitch + n / 8 * 16 + lane % 4 * 2;
            *(float2*)at = make_float2(n, n), *(float2*)(at + 8) = make_float2(n, n);
            at += 8ll * pitch;
            *(float2*)at = make_float2(n, n), *(float2*)(at + 8) = make_float2(n, n);
        }
    }
    long long end = now();
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - begin;
}

template <int PATTERN> static double run(float* c, size_t floats, int pitch, int blocks, int kilobytes, long long* cycles, double* issue) {
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&s)), CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    size_t matrix = size_t(pitch) * 128 * ((blocks + pitch / 256 - 1) / (pitch / 256));
    const int nodes = 60;
    for (int n = 0; n < nodes; ++n) store<PATTERN><<<blocks, 256, 0, s>>>(c + (n * matrix) % (floats - matrix), pitch, kilobytes, cycles);
    CHECK(cudaStreamEndCapture(s, &graph)), CHECK(cudaGraphInstantiate(&exec, graph, 0));
    cudaEvent_t a, b;
    CHECK(cudaEventCreate(&a)), CHECK(cudaEventCreate(&b));
    float ms = 0;
    for (int again = 0; again < 3; ++again) {
        CHECK(cudaEventRecord(a, s)), CHECK(cudaGraphLaunch(exec, s)), CHECK(cudaEventRecord(b, s)), CHECK(cudaStreamSynchronize(s));
        CHECK(cudaEventElapsedTime(&ms, a, b));
    }
    long long host[132];
    CHECK(cudaMemcpy(host, cycles, 8 * blocks, cudaMemcpyDeviceToHost));
    *issue = 0;
    for (int n = 0; n < blocks; ++n) *issue += double(host[n]) / blocks;
    return 1e3 * ms / nodes;
}

int main() {
    size_t floats = 1ull << 30;
    float* c;
    long long* cycles;
    CHECK(cudaMalloc(&c, floats * 4)), CHECK(cudaMalloc(&cycles, 8192));
    for (int blocks = 1; blocks <= 132; blocks = blocks == 1 ? 16 : blocks == 16 ? 66 : blocks == 66 ? 132 : 133)
        for (int pattern = 0; pattern < 2; ++pattern)
            for (int kilobytes = 0; kilobytes <= 128; kilobytes = kilobytes ? 2 * kilobytes : 32) {
                double issue, us = pattern ? run<1>(c, floats, 4096, blocks, kilobytes, cycles, &issue) : run<0>(c, floats, 4096, blocks, kilobytes, cycles, &issue);
                printf("{\"what\": \"store of a tile\", \"pattern\": %d, \"blocks\": %d, \"kilobytes\": %d, \"us\": %.3f, \"issue_cycles\": %.0f}\n", pattern, blocks, kilobytes, us, issue);
            }
}
