// On which SMs and sub-cores the blocks of a launch run, by how many there are and how many warps each has.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a block_places.cu -o block_places && ./block_places
//
// "places": every block notes its SM and the slot of its first warp, and waits until all that fit have started. "blocks_of_sm":
// how many SMs hold so many blocks. "first_parts": of the SM with most blocks, how many have their first warp in each sub-core
// (slot modulo four). "rate": blocks of "warps" warps multiply by mma.sync on one SM's worth of work, "held" of them on each SM;
// cycles of a warp for each product. If blocks of one warp shared a sub-core, four would take four times as long as one.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

extern __shared__ char room[];
__global__ void where(int2* places, int wait) {
    unsigned sm, slot;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(slot));
    if (threadIdx.x == 0) places[blockIdx.x] = make_int2(int(sm), int(slot));
    long long end = now() + wait;
    while (now() < end) {}
    if (wait < 0) room[threadIdx.x] = 1;
}

__global__ void __launch_bounds__(128) products(unsigned* out, float* taken, int2* places, int steps) {
    unsigned sm, slot, a[4], b[8][2], c[8][4] = {};
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(slot));
    for (int n = 0; n < 4; ++n) a[n] = out[threadIdx.x + n];
    for (int n = 0; n < 16; ++n) b[n / 2][n % 2] = out[threadIdx.x + 4 + n];
    __syncthreads();
    long long begin = now();
    for (int s = 0; s < steps; ++s)
#pragma unroll
        for (int n = 0; n < 8; ++n)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+r"(c[n][0]), "+r"(c[n][1]), "+r"(c[n][2]), "+r"(c[n][3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[n][0]), "r"(b[n][1]));
    long long end = now();
    unsigned sum = 0;
    for (int n = 0; n < 32; ++n) sum += c[n / 4][n % 4];
    if (sum == 12345) out[0] = sum;
    if (threadIdx.x == 0) taken[blockIdx.x] = float(end - begin) / (8 * steps), places[blockIdx.x] = make_int2(int(sm), int(slot));
}

static int2* g_places;
static float* g_taken;
static unsigned* g_data;

static void count(const std::vector<int2>& seen, char* text) {
    int of[256] = {}, most = 0, parts[4] = {};
    for (int2 p : seen) ++of[p.x];
    for (int n = 0; n < 132; ++n) if (of[n] > of[most]) most = n;
    for (int2 p : seen) if (p.x == most) ++parts[p.y % 4];
    int have[64] = {}, used = 0;
    for (int n = 0; n < 132; ++n) ++have[std::min(63, of[n])];
    used += sprintf(text, "\"blocks_of_sm\": {");
    const char* between = "";
    for (int n = 0; n < 64; ++n) if (have[n]) used += sprintf(text + used, "%s\"%d\": %d", between, n, have[n]), between = ", ";
    sprintf(text + used, "}, \"first_parts\": [%d, %d, %d, %d]", parts[0], parts[1], parts[2], parts[3]);
}

int main() {
    CHECK(cudaMalloc(&g_places, 1 << 20)), CHECK(cudaMalloc(&g_taken, 1 << 20)), CHECK(cudaMalloc(&g_data, 1 << 20)), CHECK(cudaMemset(g_data, 0, 1 << 20));
    char text[2000];
    CHECK(cudaFuncSetAttribute(where, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
    for (int warps : {1, 2, 4, 8})
        for (int smem : {8 << 10, 16 << 10, 48 << 10})
            for (int blocks : {50, 100, 200, 300, 400, 500, 1000, 1500}) {
                int fit = std::min({32, 64 / warps, (227 << 10) / (smem + 1024)});
                if (blocks > fit * 132) continue;
                where<<<blocks, 32 * warps, smem>>>(g_places, 100000);
                CHECK(cudaDeviceSynchronize());
                std::vector<int2> seen(blocks);
                CHECK(cudaMemcpy(seen.data(), g_places, 8 * blocks, cudaMemcpyDeviceToHost));
                count(seen, text);
                printf("{\"what\": \"places\", \"warps\": %d, \"smem\": %d, \"fit\": %d, \"blocks\": %d, %s}\n", warps, smem, fit, blocks, text);
            }
    for (int warps : {1, 2, 4})
        for (int held : {1, 2, 3, 4, 6, 8, 12}) {
            int blocks = 132 * held;
            products<<<blocks, 32 * warps>>>(g_data, g_taken, g_places, 4000);
            CHECK(cudaDeviceSynchronize());
            std::vector<int2> seen(blocks);
            std::vector<float> taken(blocks);
            CHECK(cudaMemcpy(seen.data(), g_places, 8 * blocks, cudaMemcpyDeviceToHost));
            CHECK(cudaMemcpy(taken.data(), g_taken, 4 * blocks, cudaMemcpyDeviceToHost));
            count(seen, text);
            std::sort(taken.begin(), taken.end());
            printf("{\"what\": \"rate\", \"warps\": %d, \"held\": %d, \"least\": %.2f, \"median\": %.2f, \"most\": %.2f, %s}\n", warps, held, taken[0], taken[blocks / 2], taken[blocks - 1], text);
        }
    return 0;
}
