// How fast blocks go that share rows and columns of operands, when these come from DRAM and when they are in L2.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a shared_panels.cu -o shared_panels && ./shared_panels
//
// Blocks in a grid fetch, step after step, a piece of A that their row of blocks shares and a piece of B that their column
// shares: "rows" rows of "width" bytes each, which go on along the row (B by rows: "width" bytes of "rows" rows, which go on
// downwards). Every step spins "spin" cycles, "jitter" more by a random number of block and step. "how": "load" fetches a step
// ahead into registers and stores to shared memory; "copy n" has n groups of cp.async in flight. "cold": 1 if no launch has
// touched these bytes, 0 if the launch before has. "cycles": of a step, the slowest block's; "mean" of all blocks.
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

struct Piece {
    int rows, width, down;  // down: goes on downwards
    size_t pitch;
};

__device__ __forceinline__ const char* chunk(const char* from, Piece p, int place, int step, int n) {
    int across = p.width / 16, row = n / across, column = n % across * 16;
    return p.down ? from + (size_t(step) * p.rows + row) * p.pitch + size_t(place) * p.width + column
                  : from + (size_t(place) * p.rows + row) * p.pitch + size_t(step) * p.width + column;
}

__device__ __forceinline__ void spin(int cycles, int jitter, int step) {
    unsigned h = (blockIdx.x * 2654435761u + blockIdx.y * 40503u + step * 2246822519u) >> 12;
    long long end = now() + cycles + (jitter ? int(h % unsigned(jitter)) : 0);
    while (now() < end) {}
}

constexpr int MOST = 6;  // chunks of a thread

// GROUPS 0: loads into registers.
template <int GROUPS> __global__ void __launch_bounds__(256) steps(const char* a, const char* b, Piece pa, Piece pb, int count, int cycles, int jitter, float* taken) {
    extern __shared__ __align__(16) char stages[];
    int of_a = pa.rows * pa.width / 16, all = of_a + pb.rows * pb.width / 16, each = all / 256;
    long long begin = 0;
    uint4 v[MOST];
    auto source = [&](int step, int n) {
        int c = n * 256 + threadIdx.x;
        return c < of_a ? chunk(a, pa, blockIdx.y, step, c) : chunk(b, pb, blockIdx.x, step, c - of_a);
    };
    auto place = [&](int step, int n) { return stages + (size_t(step % (GROUPS + 1)) * all + n * 256 + threadIdx.x) * 16; };
    auto copy = [&](int step) {
#pragma unroll
        for (int n = 0; n < MOST; ++n)
            if (n < each && step < count)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(unsigned(__cvta_generic_to_shared(place(step, n)))), "l"(source(step, n)) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    auto load = [&](int step) {
#pragma unroll
        for (int n = 0; n < MOST; ++n)
            if (n < each) v[n] = *reinterpret_cast<const uint4*>(source(step, n));
    };
    auto keep = [&](int step) {
#pragma unroll
        for (int n = 0; n < MOST; ++n)
            if (n < each) *reinterpret_cast<volatile unsigned*>(place(step, n)) = v[n].x + v[n].y + v[n].z + v[n].w;
    };
    if (GROUPS) {
        for (int s = 0; s < GROUPS; ++s) copy(s);
    } else {
        load(0), keep(0);
    }
    __syncthreads();
    for (int s = 0; s < count; ++s) {
        if (s == 4) begin = now();
        if (GROUPS) {
            asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS ? GROUPS - 1 : 0) : "memory");
            __syncthreads();
            copy(s + GROUPS);
            spin(cycles, jitter, s);
        } else {
            if (s + 1 < count) load(s + 1);
            spin(cycles, jitter, s);
            if (s + 1 < count) keep(s + 1);
            __syncthreads();
        }
    }
    if (threadIdx.x == 0) taken[blockIdx.y * gridDim.x + blockIdx.x] = float(now() - begin) / (count - 4);
}

static char* g_data;
static float* g_taken;
static size_t g_at = 0;
constexpr size_t ROOM = size_t(3) << 30;

template <int GROUPS> static void tell(const char* name, dim3 grid, Piece a, Piece b, int count) {
    auto bytes = [&](Piece p, int places) { return p.down ? size_t(count) * p.rows * p.pitch : size_t(places) * p.rows * p.pitch; };
    size_t of_a = bytes(a, grid.y), both = of_a + bytes(b, grid.x);
    int smem = (GROUPS + 1) * (a.rows * a.width + b.rows * b.width), blocks = grid.x * grid.y;
    CHECK(cudaFuncSetAttribute(steps<GROUPS>, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    for (int jitter : {0, 400})
        for (int cycles : {0, 300, 600, 900, 1200, 1600, 2200}) {
            double slowest[2] = {1e9, 1e9}, mean[2] = {1e9, 1e9};
            for (int again = 0; again < 3; ++again) {
                if (g_at + both > ROOM) g_at = 0;
                for (int hot = 0; hot < 2; ++hot) {
                    steps<GROUPS><<<grid, 256, smem>>>(g_data + g_at, g_data + g_at + of_a, a, b, count, cycles, jitter, g_taken);
                    CHECK(cudaDeviceSynchronize());
                    std::vector<float> host(blocks);
                    CHECK(cudaMemcpy(host.data(), g_taken, blocks * 4, cudaMemcpyDeviceToHost));
                    double sum = 0;
                    for (float t : host) sum += t;
                    slowest[hot] = std::min(slowest[hot], double(*std::max_element(host.begin(), host.end())));
                    mean[hot] = std::min(mean[hot], sum / blocks);
                }
                g_at += both;
            }
            for (int hot = 0; hot < 2; ++hot)
                printf("{\"what\": \"%s\", \"grid\": [%d, %d], \"bytes\": %d, \"how\": \"%s %d\", \"spin\": %d, \"jitter\": %d, \"cold\": %d, \"cycles\": %.0f, \"mean\": %.0f}\n",
                       name, grid.x, grid.y, a.rows * a.width + b.rows * b.width, GROUPS ? "copy" : "load", GROUPS, cycles, jitter, !hot, slowest[hot], mean[hot]);
            fflush(stdout);
        }
}

template <int GROUPS> static void all() {
    // 128 x 8 and 8 x 128 of fp32, at 1024, 2048 and 4096; two blocks an SM
    tell<GROUPS>("rows of 32 bytes, 512 across", dim3(8, 8), {128, 32, 0, 4096}, {8, 512, 1, 4096}, 128);
    tell<GROUPS>("rows of 32 bytes, 512 across", dim3(16, 8), {128, 32, 0, 8192}, {8, 512, 1, 8192}, 256);
    tell<GROUPS>("rows of 32 bytes, 512 across", dim3(32, 4), {128, 32, 0, 16384}, {8, 512, 1, 16384}, 256);
    tell<GROUPS>("rows of 32 bytes, 512 across", dim3(16, 16), {128, 32, 0, 8192}, {8, 512, 1, 8192}, 256);
    // 256 x 32 and 128 x 32 of fp16, both along K
    tell<GROUPS>("rows of 64 bytes", dim3(16, 8), {256, 64, 0, 4096}, {128, 64, 0, 4096}, 64);
    tell<GROUPS>("rows of 64 bytes", dim3(4, 4), {256, 64, 0, 4096}, {128, 64, 0, 4096}, 64);
    // 128 x 64 and 64 x 128 of fp16
    tell<GROUPS>("rows of 128 bytes, 256 across", dim3(8, 8), {64, 128, 0, 2048}, {64, 256, 1, 2048}, 16);
    tell<GROUPS>("rows of 128 bytes, 256 across", dim3(16, 8), {64, 128, 0, 4096}, {64, 256, 1, 4096}, 32);
}

int main() {
    CHECK(cudaMalloc(&g_data, ROOM)), CHECK(cudaMemset(g_data, 0, ROOM)), CHECK(cudaMalloc(&g_taken, 1 << 16));
    all<0>();
    all<1>();
    all<3>();
    return 0;
}
