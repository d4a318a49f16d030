// How fast an SM stores, by the shape of its stores: bytes a lane, and contiguous bytes of a row.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a store_shapes.cu -o store_shapes && ./store_shapes
//
// Every warp of a block issues "stores" stores of "lane" bytes a lane: rows of "across" contiguous bytes, 8 KB apart, each
// store beside the last one; after 16 of them the next rows. One block an SM, "blocks" of them; warps write different
// rows. "from": "L2", where the lines are in L2 already, or "DRAM", where 256 MB were read before. Cycles, mean over blocks:
// "issued": until the last store of a block has issued; "fenced": until a fence behind it is over ("fence": one alone).
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ unsigned now() { unsigned t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory"); return t; }

constexpr int PITCH = 8192, GROUP = 16;

template <int LANE> __device__ __forceinline__ void store(char* to, unsigned v) {
    if (LANE == 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(v) : "memory");
    if (LANE == 8) asm volatile("st.global.v2.u32 [%0], {%1, %1};" ::"l"(to), "r"(v) : "memory");
    if (LANE == 16) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(to), "r"(v) : "memory");
}

template <int LANE> __global__ void __launch_bounds__(256) stores(char* c, int across, int count, unsigned* out) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rows = 32 * LANE / across;
    char* mine = c + (size_t(blockIdx.x) * (blockDim.x / 32) + warp) * rows * (count / GROUP) * PITCH + size_t(lane * LANE / across) * PITCH + lane * LANE % across;
    __syncthreads();
    unsigned begin = now();
    for (int g = 0; g < count; g += GROUP, mine += rows * PITCH)
#pragma unroll
        for (int n = 0; n < GROUP; ++n) store<LANE>(mine + n * across, begin + n);
    __syncthreads();
    unsigned issued = now();
    __threadfence();
    __syncthreads();
    unsigned fenced = now();
    if (threadIdx.x == 0) out[blockIdx.x * 2] = issued - begin, out[blockIdx.x * 2 + 1] = fenced - begin;
}

__global__ void read_all(const uint4* data, size_t count, unsigned* out) {
    unsigned sum = 0;
    for (size_t n = blockIdx.x * size_t(blockDim.x) + threadIdx.x; n < count; n += size_t(gridDim.x) * blockDim.x) sum += data[n].x;
    if (sum == 12345) *out = sum;
}

static char *g_c, *g_other;
static unsigned* g_out;

template <int LANE> static void tell(int blocks, int warps, int across, int count, bool cold) {
    if (across > 32 * LANE || across < LANE) return;
    static unsigned host[264];
    double sums[2] = {};
    for (int n = 0; n < 4; ++n) {
        if (cold) read_all<<<528, 256>>>((uint4*)g_other, (256 << 20) / 16, g_out);
        stores<LANE><<<blocks, 32 * warps>>>(g_c, across, count, g_out);
        CHECK(cudaMemcpy(host, g_out, 8 * blocks, cudaMemcpyDeviceToHost));
        for (int b = 0; n > 1 && b < blocks; ++b)
            for (int i = 0; i < 2; ++i) sums[i] += double(host[b * 2 + i]) / blocks / 2;
    }
    printf("{\"lane\": %d, \"across\": %d, \"from\": \"%s\", \"blocks\": %d, \"warps\": %d, \"stores\": %d, \"issued\": %.0f, \"fenced\": %.0f}\n", LANE, across, cold ? "DRAM" : "L2", blocks, warps, count, sums[0], sums[1]);
    fflush(stdout);
}

template <int LANE> static void shapes() {
    for (int cold = 0; cold < 2; ++cold)
        for (int blocks : {1, 16, 64, 132})
            for (int warps : {4, 8})
                for (int count : {0, 16, 32, 64})
                    for (int across : {16, 32, 64, 128, 256, 512}) tell<LANE>(blocks, warps, across, count, cold);
}

int main() {
    CHECK(cudaMalloc(&g_c, size_t(4) << 30)), CHECK(cudaMalloc(&g_other, 256 << 20)), CHECK(cudaMemset(g_other, 0, 256 << 20)), CHECK(cudaMalloc(&g_out, 1 << 16));
    shapes<4>(), shapes<8>(), shapes<16>();
    return 0;
}
