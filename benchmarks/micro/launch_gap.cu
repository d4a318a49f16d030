// What a launch takes beyond what its blocks do: kernels that spin, one after another in a graph.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a launch_gap.cu -o launch_gap && ./launch_gap
//
// Every block spins for a number of cycles; two such numbers give the clock and what is left, "gap_us". By blocks, threads,
// dynamic shared memory, registers of a thread, and whether each thread stores 16 bytes at its end.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

template <int REGISTERS> __global__ void __launch_bounds__(256) __maxnreg__(REGISTERS) spin(uint4* out, int cycles, int stores) {
    for (long long until = now() + cycles; now() < until;) {}
    if (stores) out[blockIdx.x * blockDim.x + threadIdx.x] = {1, 2, 3, 4};
}

static uint4* g_out;
static cudaStream_t g_stream;

template <int REGISTERS> static double each_us(int blocks, int threads, int smem, int cycles, int stores) {
    constexpr int launches = 200;
    CHECK(cudaFuncSetAttribute(spin<REGISTERS>, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(g_stream, cudaStreamCaptureModeGlobal));
    for (int n = 0; n < launches; ++n) spin<REGISTERS><<<blocks, threads, smem, g_stream>>>(g_out, cycles, stores);
    CHECK(cudaStreamEndCapture(g_stream, &graph)), CHECK(cudaGraphInstantiate(&exec, graph, 0));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin)), CHECK(cudaEventCreate(&end));
    float best = 1e9;
    for (int n = 0; n < 8; ++n) {
        CHECK(cudaEventRecord(begin, g_stream)), CHECK(cudaGraphLaunch(exec, g_stream)), CHECK(cudaEventRecord(end, g_stream));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (n > 2 && ms < best) best = ms;
    }
    CHECK(cudaGraphExecDestroy(exec)), CHECK(cudaGraphDestroy(graph));
    return best * 1e3 / launches;
}

template <int REGISTERS> static void tell(int blocks, int threads, int smem, int stores) {
    constexpr int low = 8000, high = 24000;
    double a = each_us<REGISTERS>(blocks, threads, smem, low, stores), b = each_us<REGISTERS>(blocks, threads, smem, high, stores);
    double mhz = (high - low) / (b - a);
    printf("{\"blocks\": %d, \"threads\": %d, \"smem\": %d, \"registers\": %d, \"stores\": %d, \"mhz\": %.0f, \"gap_us\": %.3f}\n", blocks, threads, smem,
           REGISTERS, stores, mhz, a - low / mhz);
    fflush(stdout);
}

int main() {
    CHECK(cudaMalloc(&g_out, 1 << 24)), CHECK(cudaStreamCreate(&g_stream));
    for (int blocks : {16, 64, 132})
        for (int threads : {128, 256})
            for (int smem : {0, 32768, 65536, 200000})
                for (int stores : {0, 1}) tell<32>(blocks, threads, smem, stores), tell<240>(blocks, threads, smem, stores);
    return 0;
}
