// How fast the tiles of a large product come from L2 and DRAM: blocks read their rows of A and columns of B and do nothing else.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a tile_traffic.cu -o tile_traffic && ./tile_traffic
//
// A and B of "size" x "size" 16-bit numbers, both along K. A block of 128 threads reads "tile" rows of each, 128 bytes of a row in
// a step; "held" blocks share an SM. "group": rows of tiles that blocks go through column by column, 0: one row after the other.
// "spin": cycles that a block waits in every step. "skew": tiles start at another place of K (block number modulo 16), which
// takes blocks out of step. "bytes_per_cycle": of an SM, from L2; "gb": the same of all SMs. "least_gb": what DRAM must give.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }
extern __shared__ char room[];

template <int TILE> __global__ void __launch_bounds__(128) tiles(const char* a, const char* b, int size, int group, int spin, int skew, unsigned* out) {
    int across = size / TILE, row = blockIdx.x / across, column = blockIdx.x % across;
    if (group) {
        int band = blockIdx.x / (group * across), inside = blockIdx.x % (group * across);
        row = band * group + inside % group, column = inside / group;
    }
    size_t pitch = size_t(size) * 2, steps = pitch / 128, first = skew ? blockIdx.x % 16 * steps / 16 : 0;
    const char* mine = a + (size_t(row) * TILE + threadIdx.x / 8) * pitch + threadIdx.x % 8 * 16;
    const char* other = b + (size_t(column) * TILE + threadIdx.x / 8) * pitch + threadIdx.x % 8 * 16;
    unsigned sum = 0;
    for (size_t s = 0; s < steps; ++s) {
        size_t at = (s + first) % steps * 128;
        uint4 v[TILE / 8];
#pragma unroll
        for (int n = 0; n < TILE / 16; ++n) {
            asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[n].x), "=r"(v[n].y), "=r"(v[n].z), "=r"(v[n].w) : "l"(mine + at + n * 16 * pitch));
            asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[n + TILE / 16].x), "=r"(v[n + TILE / 16].y), "=r"(v[n + TILE / 16].z), "=r"(v[n + TILE / 16].w) : "l"(other + at + n * 16 * pitch));
        }
#pragma unroll
        for (int n = 0; n < TILE / 8; ++n) sum += v[n].x ^ v[n].y ^ v[n].z ^ v[n].w;
        if (sum == 12345) out[0] = sum;
        if (spin) for (long long end = now() + spin; now() < end;) {}
        __syncthreads();
    }
}

static char *g_a, *g_b;
static unsigned* g_out;

template <int TILE> static void tell(int size, int held, int group, int spin, int skew) {
    int smem = (227 << 10) / held - 1024 - 16, blocks = (size / TILE) * (size / TILE), mhz;
    auto kernel = tiles<TILE>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    CHECK(cudaDeviceGetAttribute(&mhz, cudaDevAttrClockRate, 0));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin)), CHECK(cudaEventCreate(&end));
    float best = 1e9, ms;
    for (int again = 0; again < 3; ++again) {
        CHECK(cudaEventRecord(begin));
        kernel<<<blocks, 128, smem>>>(g_a, g_b, size, group, spin, skew, g_out);
        CHECK(cudaEventRecord(end));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        best = ms < best ? ms : best;
    }
    double moved = double(blocks) * size * 2 * 2 * TILE, least = 4.0 * size * size;
    printf("{\"size\": %d, \"tile\": %d, \"held\": %d, \"group\": %d, \"spin\": %d, \"skew\": %d, \"us\": %.1f, \"gb\": %.0f, \"bytes_per_cycle\": %.1f, \"least_gb\": %.0f}\n",
           size, TILE, held, group, spin, skew, best * 1e3, moved / best / 1e6, moved / best / mhz / 132, least / best / 1e6);
    fflush(stdout);
}

int main(int count, char**) {
    size_t room = size_t(8192) * 8192 * 2;
    CHECK(cudaMalloc(&g_a, room)), CHECK(cudaMalloc(&g_b, room)), CHECK(cudaMalloc(&g_out, 64));
    CHECK(cudaMemset(g_a, 0, room)), CHECK(cudaMemset(g_b, 0, room));
    if (count > 1) {  // few, for a profiler
        tell<64>(2048, 8, 0, 0, 0), tell<64>(8192, 8, 0, 0, 0), tell<64>(8192, 8, 16, 0, 0), tell<64>(8192, 8, 0, 0, 1);
        return 0;
    }
    for (int size : {2048, 3072, 4096, 5120, 6144, 8192}) {
        for (int held : {1, 2, 4, 8}) tell<64>(size, held, 0, 0, 0), tell<128>(size, held, 0, 0, 0);
        tell<64>(size, 8, 16, 0, 0), tell<64>(size, 8, 0, 0, 1), tell<64>(size, 4, 0, 1000, 0), tell<64>(size, 4, 0, 1000, 1), tell<128>(size, 2, 0, 1000, 0);
    }
    return 0;
}
