// Copies by cp.async of rows of 32 to 256 bytes: how long until they arrive, and what a k-tile of them takes a block.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a copy_rows.cu -o copy_rows && ./copy_rows
//
// Every thread of a block copies 16 bytes "copies" times a k-tile: of A, rows of "width" bytes, each k-tile the next bytes
// of the same rows; if "b" is not 0, half of the copies are of B, the next rows of "b" bytes. "how": "cg" past L1, "ca"
// through it, "cg128" past L1 with L2::128B. "pad": bytes between rows in shared memory. "from": "L2", or "DRAM", where
// 256 MB were read before. "blocks": one an SM; "sharers" of them read the same A. "stages" 1: issue, wait, barrier.
// Otherwise as rungs do: wait for the oldest of stages - 1 k-tiles, barrier, issue the next, compute for "spin" cycles.
// Cycles, mean over blocks: "first": from the first issue to the arrival of the first k-tile (warp 0); "tile": of a k-tile,
// from the ninth on; "wait": of it, warp 0 waiting for its own copies, in "even" and "odd" k-tiles; "meet": at the
// barrier; "issue": issuing copies.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ unsigned now() { unsigned t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory"); return t; }

constexpr int TILES = 32, SKIPPED = 8, COUNTS = 7, ROOM = 160 << 10;
enum How { CG, CA, CG128 };
struct Case { int width, b, pad, sharers, spin; };

template <int HOW, int COPIES, int STAGES> __global__ void __launch_bounds__(256) tiles(const char* data, const char* columns, Case c, unsigned* out) {
    extern __shared__ __align__(128) char shared[];
    int threads = blockDim.x, split = c.b ? COPIES / 2 : COPIES;
    int rows = split * threads * 16 / c.width, stage = rows * (c.width + c.pad), pitch = TILES * c.width, groups = (gridDim.x + c.sharers - 1) / c.sharers;
    int rows_b = c.b ? (COPIES - split) * threads * 16 / c.b : 0, pitch_b = c.b * c.sharers;
    unsigned base = unsigned(__cvta_generic_to_shared(shared)), to[COPIES];
    const char* from[COPIES];
    int step[COPIES];
#pragma unroll
    for (int n = 0; n < COPIES; ++n) {
        bool is_b = n >= split;
        int chunk = (is_b ? n - split : n) * threads + threadIdx.x, across = (is_b ? c.b : c.width) / 16, row = chunk / across, column = chunk % across * 16;
        to[n] = base + (is_b ? stage + row * c.b : row * (c.width + c.pad)) + column;
        from[n] = is_b ? columns + row * pitch_b + blockIdx.x % c.sharers * c.b + column : data + (size_t(blockIdx.x % groups) * rows + row) * pitch + column;
        step[n] = is_b ? rows_b * pitch_b : c.width;
    }
    stage += rows_b * c.b;
    auto fetch = [&](int s) {
#pragma unroll
        for (int n = 0; n < COPIES; ++n) {
            unsigned at = to[n] + s % STAGES * stage;
            if (s < TILES) {
                if (HOW == CG) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from[n]) : "memory");
                if (HOW == CA) asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from[n]) : "memory");
                if (HOW == CG128) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(at), "l"(from[n]) : "memory");
            }
            from[n] += step[n];
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    unsigned first = 0, wait[2] = {}, meet = 0, issue = 0, start = 0, began = now();
    for (int s = 0; s < STAGES - 1; ++s) fetch(s);
    for (int s = 0; s < TILES; ++s) {
        if (s == SKIPPED) start = now();
        unsigned a = now();
        if (STAGES == 1) fetch(s);
        unsigned b = now();
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES > 1 ? STAGES - 2 : 0) : "memory");
        unsigned d = now();
        __syncthreads();
        unsigned e = now();
        if (STAGES > 1) fetch(s + STAGES - 1);
        unsigned f = now();
        if (s == 0) first = d - began;
        if (s >= SKIPPED) wait[s % 2] += d - b, meet += e - d, issue += (b - a) + (f - e);
        while (now() - f < unsigned(c.spin)) {}
        if (STAGES == 1) __syncthreads();
    }
    unsigned end = now();
    if (threadIdx.x == 0) {
        unsigned* mine = out + blockIdx.x * COUNTS;
        mine[0] = first, mine[1] = end - start, mine[2] = wait[0], mine[3] = wait[1], mine[4] = meet, mine[5] = issue;
    }
}

__global__ void read_all(const uint4* data, size_t count, unsigned* out) {
    unsigned sum = 0;
    for (size_t n = blockIdx.x * size_t(blockDim.x) + threadIdx.x; n < count; n += size_t(gridDim.x) * blockDim.x) sum += data[n].x;
    if (sum == 12345) *out = sum;
}

static char *g_data, *g_columns, *g_other;
static unsigned* g_out;

template <int HOW, int COPIES, int STAGES> static void tell(int blocks, int warps, bool cold, Case c) {
    auto kernel = tiles<HOW, COPIES, STAGES>;
    int split = c.b ? COPIES / 2 : COPIES, rows = split * warps * 512 / c.width, groups = (blocks + c.sharers - 1) / c.sharers;
    if (rows < 1 || (c.b && (COPIES - split) * warps * 512 < c.b)) return;
    size_t needed = size_t(groups) * rows * TILES * c.width;
    if ((rows * (c.width + c.pad) + (COPIES - split) * warps * 512) * STAGES > ROOM || (!cold && needed > (10 << 20))) return;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, ROOM));
    static unsigned host[132 * COUNTS];
    double sums[COUNTS] = {};
    int runs = cold ? 3 : 4;
    for (int n = 0; n < runs; ++n) {
        if (cold) read_all<<<528, 256>>>((uint4*)g_other, (256 << 20) / 16, g_out);
        kernel<<<blocks, 32 * warps, ROOM>>>(g_data, g_columns, c, g_out);
        CHECK(cudaMemcpy(host, g_out, sizeof(unsigned) * COUNTS * blocks, cudaMemcpyDeviceToHost));
        if (n < runs - 2) continue;
        for (int b = 0; b < blocks; ++b)
            for (int i = 0; i < COUNTS - 1; ++i) sums[i] += double(host[b * COUNTS + i]) / blocks / 2;
    }
    const char* names[] = {"cg", "ca", "cg128"};
    double kept = TILES - SKIPPED;
    printf("{\"how\": \"%s\", \"width\": %d, \"b\": %d, \"pad\": %d, \"from\": \"%s\", \"blocks\": %d, \"sharers\": %d, \"warps\": %d, \"copies\": %d, \"stages\": %d, \"spin\": %d, \"first\": %.0f, \"tile\": %.0f, "
           "\"even\": %.0f, \"odd\": %.0f, \"meet\": %.0f, \"issue\": %.0f}\n",
           names[HOW], c.width, c.b, c.pad, cold ? "DRAM" : "L2", blocks, c.sharers, warps, COPIES, STAGES, c.spin, sums[0], sums[1] / kept, sums[2] / kept * 2, sums[3] / kept * 2, sums[4] / kept, sums[5] / kept);
    fflush(stdout);
}

// One at a time: how long copies take to arrive.
template <int HOW, int COPIES> static void arrivals() {
    for (int cold = 0; cold < 2; ++cold)
        for (int blocks : {1, 132})
            for (int warps : {1, 2, 4, 8})
                for (int width : {32, 64, 128})
                    for (int pad : {0, 16}) tell<HOW, COPIES, 1>(blocks, warps, cold, {width, 0, pad, blocks > 1 ? 12 : 1, 0});
}

// As rungs have them: A alone, and with B, in a pipeline.
template <int HOW, int STAGES> static void pipelines() {
    for (int cold = 0; cold < 2; ++cold)
        for (int blocks : {16, 64, 132})
            for (int warps : {4, 8})
                for (int spin : {0, 600, 1200})
                    for (int width : {32, 64, 128})
                        for (int b : {0, 256}) {
                            if (blocks == 16 && (warps == 8 || spin == 1200)) continue;
                            tell<HOW, 4, STAGES>(blocks, warps, cold, {width, b, 16, blocks == 16 ? 4 : 8, spin});
                        }
}

// Blocks that read nothing in common, and more copies a thread.
template <int HOW> static void others() {
    for (int cold = 0; cold < 2; ++cold)
        for (int width : {32, 64, 128})
            for (int warps : {4, 8}) {
                tell<HOW, 4, 1>(132, warps, cold, {width, 0, 16, 1, 0}), tell<HOW, 4, 2>(132, warps, cold, {width, 0, 16, 1, 600});
                tell<HOW, 8, 1>(132, warps, cold, {width, 0, 16, 12, 0}), tell<HOW, 8, 4>(132, warps, cold, {width, 0, 16, 12, 600});
                tell<HOW, 8, 2>(132, warps, cold, {width, 256, 16, 12, 600}), tell<HOW, 8, 4>(16, warps, cold, {width, 256, 16, 4, 600});
            }
}

int main() {
    CHECK(cudaMalloc(&g_data, 256 << 20)), CHECK(cudaMemset(g_data, 0, 256 << 20)), CHECK(cudaMalloc(&g_columns, 64 << 20)), CHECK(cudaMemset(g_columns, 0, 64 << 20));
    CHECK(cudaMalloc(&g_other, 256 << 20)), CHECK(cudaMemset(g_other, 0, 256 << 20)), CHECK(cudaMalloc(&g_out, 1 << 16));
    arrivals<CG, 1>(), arrivals<CA, 1>(), arrivals<CG, 4>(), arrivals<CA, 4>(), arrivals<CG128, 4>();
    pipelines<CG, 2>(), pipelines<CA, 2>(), pipelines<CG, 3>(), pipelines<CG, 4>(), pipelines<CA, 4>();
    others<CG>(), others<CA>(), others<CG128>();
    return 0;
}
