// How fast TMA loads and stores boxes: by their rows, by who shares them, and by how many SMs work.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a tma_boxes.cu -o tma_boxes -lcuda && ./tma_boxes
//
// One block an SM, one thread of which issues. Loads: STAGES mbarriers; a stage is two boxes, "rows" rows of "row_bytes" bytes and as many
// of "other_bytes" (0: one box). "sharers": SMs that read the same boxes, "neighbours" 1: blocks that follow one another. Stores: "boxes"
// boxes, one after the other: cycles until the last was issued, until all have been read, and until all are written.
// Every line of the output is a JSON object.
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

constexpr int STAGES = 8, STEPS = 512, COLUMNS = 1024, ROWS = 132 * 64;  // of the matrix, in 16-bit numbers
constexpr int STAGE_BYTES = 24576;

__device__ __forceinline__ void load_box(const CUtensorMap* map, unsigned to, int column, int row, unsigned bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(column),
                 "r"(row), "r"(bar) : "memory");
}

template <int BOXES> __global__ void __launch_bounds__(128) loads(const __grid_constant__ CUtensorMap one, const __grid_constant__ CUtensorMap other, int rows,
                                                                  int columns, int bytes, int sharers, int neighbours, long long* cycles) {
    extern __shared__ __align__(1024) unsigned char space[];
    __shared__ __align__(8) uint64_t full[STAGES];
    unsigned bars = __cvta_generic_to_shared(full), to = __cvta_generic_to_shared(space);
    if (threadIdx.x) return;
    for (int n = 0; n < STAGES; ++n) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bars + 8 * n));
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
    int regions = (gridDim.x + sharers - 1) / sharers;
    int row = (neighbours ? blockIdx.x / sharers : blockIdx.x % regions) * rows, column = 0, second = (row + ROWS / 2) % (ROWS - rows);
    auto load = [&](int stage) {
        unsigned bar = bars + 8 * stage, at = to + stage * STAGE_BYTES;
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
        load_box(&one, at, column, row, bar);
        if (BOXES == 2) load_box(&other, at + STAGE_BYTES / 3 * 2, column, second, bar);
        column = (column + columns) & (COLUMNS - 1);
    };
    for (int n = 0; n < STAGES; ++n) load(n);
    long long begin = now();
    unsigned phase = 0;
    for (int n = 0; n < STEPS; n += STAGES) {
#pragma unroll 1
        for (int stage = 0; stage < STAGES; ++stage) {
            asm volatile("{\n.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(bars + 8 * stage), "r"(phase) : "memory");
            load(stage);
        }
        phase ^= 1;
    }
    cycles[blockIdx.x] = now() - begin;
    for (int stage = 0; stage < STAGES; ++stage)
        asm volatile("{\n.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(bars + 8 * stage), "r"(phase) : "memory");
}

__global__ void __launch_bounds__(128) stores(const __grid_constant__ CUtensorMap map, int rows, int boxes, long long* cycles) {
    extern __shared__ __align__(1024) unsigned char space[];
    unsigned from = __cvta_generic_to_shared(space);
    if (threadIdx.x) return;
    long long begin = now();
    for (int n = 0; n < boxes; ++n)
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(n % 16 * 64), "r"(blockIdx.x * rows), "r"(
                         from + n * rows * 128) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    long long issued = now();
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    long long read = now();
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    long long written = now();
    cycles[blockIdx.x * 3] = issued - begin, cycles[blockIdx.x * 3 + 1] = read - begin, cycles[blockIdx.x * 3 + 2] = written - begin;
}

static decltype(&cuTensorMapEncodeTiled) encode;

static CUtensorMap map_of(void* data, size_t pitch, int rows, int row_bytes) {
    CUtensorMap map;
    cuuint64_t sizes[] = {COLUMNS, ROWS}, strides[] = {pitch};
    cuuint32_t box[] = {cuuint32_t(row_bytes / 2), cuuint32_t(rows)}, steps[] = {1, 1};
    auto swizzle = row_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_NONE;
    if (encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) fprintf(stderr, "no tensor map\n"), exit(1);
    return map;
}

static double mean(const long long* host, int blocks, int every, int at) {
    double sum = 0;
    for (int n = 0; n < blocks; ++n) sum += double(host[n * every + at]) / blocks;
    return sum;
}

int main() {
    unsigned char* data;
    long long *cycles, host[3 * 132];
    size_t bytes = size_t(ROWS) * 33024;
    CHECK(cudaMalloc(&data, bytes)), CHECK(cudaMemset(data, 0, bytes)), CHECK(cudaMalloc(&cycles, sizeof host));
    for (auto kernel : {loads<1>, loads<2>}) CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, STAGES * STAGE_BYTES));
    CHECK(cudaFuncSetAttribute(stores, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072));
    cudaDriverEntryPointQueryResult state;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void**)&encode, 12000, cudaEnableDefault, &state));
    struct Shape { int rows, row_bytes, other_bytes; } shapes[] = {{8, 128, 0}, {32, 128, 0}, {64, 128, 0}, {128, 128, 0}, {64, 64, 0}, {128, 64, 0}, {64, 32, 0},
                                                                   {64, 128, 64}, {64, 128, 128}, {32, 128, 64}, {8, 128, 64}};
    struct Sharing { int busy, sharers, neighbours; } sharing[] = {{1, 1, 1}, {16, 1, 1}, {66, 1, 1}, {132, 1, 1}, {132, 4, 0}, {132, 4, 1}, {132, 8, 0}, {132, 8, 1}, {132, 33, 0}};
    for (size_t pitch : {2048, 8192, 32768, 33024})
        for (auto [rows, row_bytes, other_bytes] : shapes) {
            CUtensorMap one = map_of(data, pitch, rows, row_bytes), other = other_bytes ? map_of(data, pitch, rows, other_bytes) : one;
            int nbytes = rows * (row_bytes + other_bytes);
            for (auto [busy, sharers, neighbours] : sharing) {
                if (busy * rows > sharers * ROWS) continue;
                for (int n = 0; n < 2; ++n)
                    (other_bytes ? loads<2> : loads<1>)<<<busy, 128, STAGES * STAGE_BYTES>>>(one, other, rows, row_bytes / 2, nbytes, sharers, neighbours, cycles);
                CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, cycles, 8 * busy, cudaMemcpyDeviceToHost));
                double each = mean(host, busy, 1, 0) / STEPS;
                printf("{\"what\": \"load\", \"pitch\": %zu, \"rows\": %d, \"row_bytes\": %d, \"other_bytes\": %d, \"busy\": %d, \"sharers\": %d, \"neighbours\": %d, \"cycles\": %.1f, \"bytes_per_cycle\": %.1f}\n",
                       pitch, rows, row_bytes, other_bytes, busy, sharers, neighbours, each, nbytes / each);
                fflush(stdout);
            }
        }
    for (int rows : {32, 64})
        for (int busy : {1, 16, 66, 132})
            for (int boxes : {1, 2, 4, 8, 16}) {
                CUtensorMap map = map_of(data, 16384, rows, 128);
                for (int n = 0; n < 2; ++n) stores<<<busy, 128, 131072>>>(map, rows, boxes, cycles);
                CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, cycles, 24 * busy, cudaMemcpyDeviceToHost));
                printf("{\"what\": \"store\", \"rows\": %d, \"row_bytes\": 128, \"busy\": %d, \"boxes\": %d, \"issued\": %.0f, \"read\": %.0f, \"written\": %.0f}\n", rows, busy, boxes,
                       mean(host, busy, 3, 0), mean(host, busy, 3, 1), mean(host, busy, 3, 2));
                fflush(stdout);
            }
    return 0;
}
