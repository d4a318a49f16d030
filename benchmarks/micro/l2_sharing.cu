// L2 to the SMs where some SMs read the same data: by loads, and by TMA in boxes of rows of 128 bytes.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a l2_sharing.cu -o l2_sharing -lcuda && ./l2_sharing
//
// One block an SM. "sharers": SMs that read the same rows; "neighbours" 1: blocks that follow one another share, 0: blocks
// of one remainder. "pitch": bytes from row to row. "busy": SMs at work. "rows": of a box; "boxes": that arrive at one mbarrier.
// Every line of the output is a JSON object.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

constexpr int ROWS = 64, STAGES = 16, TILES = 16;  // rows of a region, boxes of so many rows in flight, boxes along a row

__device__ int region(int sharers, int neighbours) {
    int regions = (gridDim.x + sharers - 1) / sharers;
    return neighbours ? blockIdx.x / sharers : blockIdx.x % regions;
}

__global__ void __launch_bounds__(128) by_tma(const __grid_constant__ CUtensorMap map, int sharers, int neighbours, int rounds, int stages, int rows, int boxes, long long* cycles) {
    extern __shared__ __align__(1024) unsigned char space[];
    __shared__ __align__(8) uint64_t full[STAGES];
    unsigned bars = __cvta_generic_to_shared(full), to = __cvta_generic_to_shared(space);
    if (threadIdx.x) return;
    for (int n = 0; n < STAGES; ++n) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bars + 8 * n));
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
    int row = region(sharers, neighbours) * rows * boxes, total = rounds * TILES;
    auto load = [&](int n) {
        unsigned bar = bars + 8 * (n % stages);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(boxes * rows * 128) : "memory");
        for (int n2 = 0; n2 < boxes; ++n2)
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                             to + (n % stages * boxes + n2) * rows * 128), "l"(&map), "r"(n % TILES * 64), "r"(row + n2 * rows), "r"(bar) : "memory");
    };
    long long begin = now();
    for (int n = 0; n < stages; ++n) load(n);
    for (int n = 0; n < total; ++n) {
        asm volatile("{\n.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(bars + 8 * (n % stages)),
                     "r"(n / stages & 1) : "memory");
        if (n + stages < total) load(n + stages);
    }
    cycles[blockIdx.x] = now() - begin;
}

__global__ void __launch_bounds__(1024) by_loads(const unsigned char* data, size_t pitch, int sharers, int neighbours, int rounds, unsigned* out, long long* cycles) {
    // A warp reads four rows of 128 bytes at a time; the block two boxes.
    const unsigned char* mine = data + size_t(region(sharers, neighbours)) * ROWS * pitch + threadIdx.x / 8 % ROWS * pitch + threadIdx.x % 8 * 16;
    unsigned sum = 0;
    __syncthreads();
    long long begin = now();
    for (int r = 0; r < rounds; ++r)
#pragma unroll 4
        for (int n = threadIdx.x / 512; n < TILES; n += 2) {
            uint4 v;
            asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(mine + n * 128));
            sum += v.x ^ v.y ^ v.z ^ v.w;
        }
    if (sum == 12345) *out = sum;
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = now() - begin;
}

int main() {
    const size_t bytes = size_t(132) * ROWS * 33024;
    unsigned char* data;
    long long *cycles, host[132];
    CHECK(cudaMalloc(&data, bytes)), CHECK(cudaMemset(data, 0, bytes)), CHECK(cudaMalloc(&cycles, sizeof host));
    CHECK(cudaFuncSetAttribute(by_tma, cudaFuncAttributeMaxDynamicSharedMemorySize, STAGES * ROWS * 128));
    void* found = nullptr;
    cudaDriverEntryPointQueryResult state;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &state));
    auto encode = (decltype(&cuTensorMapEncodeTiled))found;
    auto tell = [&](const char* what, int busy, int sharers, int neighbours, size_t pitch, int rows, int boxes, int stages, int rounds) {
        CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, cycles, 8 * busy, cudaMemcpyDeviceToHost));
        double mean = 0;
        for (int n = 0; n < busy; ++n) mean += double(host[n]) / busy;
        printf("{\"what\": \"L2 read by %s\", \"busy\": %d, \"sharers\": %d, \"neighbours\": %d, \"pitch\": %zu, \"rows\": %d, \"boxes\": %d, \"stages\": %d, \"bytes_per_cycle\": %.1f}\n",
               what, busy, sharers, neighbours, pitch, rows, boxes, stages, double(rounds) * TILES * rows * boxes * 128 / mean);
        fflush(stdout);
    };
    const int sharing[] = {1, 2, 4, 8, 16, 33, 132}, working[] = {132, 66, 16};
    for (size_t pitch : {2048, 16384, 32768}) {
        for (int rows : {16, 32, 64, 128, 256}) {
            CUtensorMap map;
            cuuint64_t sizes[] = {TILES * 64, 132 * ROWS}, strides[] = {pitch};
            cuuint32_t box[] = {64, cuuint32_t(rows)}, steps[] = {1, 1};
            if (encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                       CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) return fprintf(stderr, "no tensor map\n"), 1;
            for (int boxes : {1, 2, 4})
                for (int busy : {132, 1})
                    for (int sharers : {1, 2, 4, 8, 33}) {
                        if (sharers > busy || boxes * rows > 256 || (busy + sharers - 1) / sharers * boxes * rows > 132 * ROWS) continue;
                        const int rounds = 16, stages = std::min(STAGES, STAGES * ROWS / (rows * boxes));
                        for (int n = 0; n < 2; ++n) by_tma<<<busy, 128, STAGES * ROWS * 128>>>(map, sharers, 1, rounds, stages, rows, boxes, cycles);
                        tell("TMA", busy, sharers, 1, pitch, rows, boxes, stages, rounds);
                    }
        }
        for (int busy : working)
            for (int sharers : sharing)
                for (int neighbours = 0; neighbours < 2; ++neighbours) {
                    if (sharers > busy || (neighbours && (sharers == 1 || sharers == busy))) continue;
                    const int rounds = 24;
                    for (int n = 0; n < 2; ++n) by_loads<<<busy, 1024>>>(data, pitch, sharers, neighbours, rounds, (unsigned*)cycles, cycles);
                    tell("loads", busy, sharers, neighbours, pitch, ROWS, 1, 0, rounds);
                }
    }
    return 0;
}
