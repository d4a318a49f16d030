// When the second of two kernels starts, with and without programmatic dependent launch (PDL).
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a dependent_launches.cu -o dependent_launches && ./dependent_launches
//
// A graph of pairs: a prologue of "blocks" x 256 threads that copies "vectors" x 16 bytes a thread (0: stores 16 bytes
// and reads nothing), and a product of "next" blocks with "smem" bytes that spins. "pdl": which launches of a pair have
// the attribute (0 none, 1 the product, 2 both); "early": 1 if every kernel calls launch_dependents as it begins.
// "cold": sources of the prologue are in DRAM. Each block reads the GPU's timer as it begins, behind
// griddepcontrol.wait and at its end. Nanoseconds, mean over pairs:
//
//     prologue's first block   "begin" and "waited", from the end of the product before; "took" from "waited" to its last end
//     product's blocks         "first", "last" begin, and "free", "all_free" the first and last return of their wait,
//                              from the end of the prologue's last block
//     "pair"                   a pair altogether, by events
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ unsigned timer() { unsigned t; asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(t)::"memory"); return t; }

constexpr int PAIRS = 24, SKIPPED = 4, MOST_BLOCKS = 512, THREADS = 256, SPIN = 6000;
constexpr size_t SOURCE = size_t(1) << 30;
struct Stamp { unsigned begin, waited, end, unused; };

__device__ __forceinline__ Stamp begun(int early) {
    Stamp s = {timer(), 0, 0, 0};
    if (early) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    s.waited = timer();
    return s;
}

__device__ __forceinline__ void ended(Stamp s, Stamp* stamps) {
    __syncthreads();
    s.end = timer();
    if (threadIdx.x == 0) stamps[blockIdx.x] = s;
}

template <int VECTORS> __global__ void __launch_bounds__(THREADS) prologue(const uint4* from, uint4* to, int early, Stamp* stamps) {
    Stamp s = begun(early);
    unsigned at = blockIdx.x * THREADS + threadIdx.x, step = gridDim.x * THREADS;
    if (VECTORS == 0) {
        to[at] = {1, 2, 3, 4};
    } else {
        uint4 v[VECTORS + 1];
#pragma unroll
        for (int n = 0; n < VECTORS; ++n) v[n] = from[at + n * step];
#pragma unroll
        for (int n = 0; n < VECTORS; ++n) to[at + n * step] = v[n];
    }
    ended(s, stamps);
}

__global__ void __launch_bounds__(THREADS) product(uint4* to, int early, Stamp* stamps) {
    extern __shared__ unsigned char shared[];
    if (early > 1) shared[threadIdx.x] = 1;
    Stamp s = begun(early);
    for (long long until = clock64() + SPIN; clock64() < until;) {}
    to[blockIdx.x * THREADS + threadIdx.x] = {1, 2, 3, 4};
    ended(s, stamps);
}

__global__ void read_all(const uint4* data, size_t count, unsigned* out) {
    unsigned sum = 0;
    for (size_t n = blockIdx.x * size_t(blockDim.x) + threadIdx.x; n < count; n += size_t(gridDim.x) * blockDim.x) sum += data[n].x;
    if (sum == 12345) *out = sum;
}

static char *g_from, *g_to, *g_other;
static Stamp* g_stamps;
static unsigned* g_out;
static cudaStream_t g_stream;

template <class Kernel, class... Args> static void launch(Kernel kernel, int blocks, int smem, bool pdl, Args... args) {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = blocks, config.blockDim = THREADS, config.dynamicSmemBytes = smem, config.stream = g_stream;
    config.attrs = &attribute, config.numAttrs = pdl;
    CHECK(cudaLaunchKernelEx(&config, kernel, args...));
}

template <int VECTORS> static void tell(int blocks, int next, int smem, int pdl, int early, bool cold) {
    size_t nbytes = size_t(VECTORS ? VECTORS : 1) * 16 * THREADS * blocks;
    CHECK(cudaFuncSetAttribute(product, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(g_stream, cudaStreamCaptureModeGlobal));
    for (int n = 0; n < PAIRS; ++n) {
        size_t at = cold ? n * nbytes % (SOURCE - nbytes) / 256 * 256 : 0;
        launch(prologue<VECTORS>, blocks, 0, pdl > 1, (const uint4*)(g_from + at), (uint4*)(g_to + at), early, g_stamps + 2 * n * MOST_BLOCKS);
        launch(product, next, smem, pdl > 0, (uint4*)g_other, early, g_stamps + (2 * n + 1) * MOST_BLOCKS);
    }
    CHECK(cudaStreamEndCapture(g_stream, &graph)), CHECK(cudaGraphInstantiate(&exec, graph, 0)), CHECK(cudaGraphUpload(exec, g_stream));
    cudaEvent_t from, to;
    CHECK(cudaEventCreate(&from)), CHECK(cudaEventCreate(&to));
    static std::vector<Stamp> host(2 * PAIRS * MOST_BLOCKS);
    double sums[8] = {}, count = 0;
    for (int n = 0; n < 6; ++n) {
        if (cold) read_all<<<528, 256, 0, g_stream>>>((uint4*)g_other, (256 << 20) / 16, g_out);
        CHECK(cudaEventRecord(from, g_stream)), CHECK(cudaGraphLaunch(exec, g_stream)), CHECK(cudaEventRecord(to, g_stream));
        CHECK(cudaEventSynchronize(to));
        if (n < 2) continue;
        CHECK(cudaMemcpy(host.data(), g_stamps, host.size() * sizeof(Stamp), cudaMemcpyDeviceToHost));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, from, to));
        for (int p = SKIPPED; p < PAIRS; ++p) {
            const Stamp *one = &host[2 * p * MOST_BLOCKS], *two = one + MOST_BLOCKS, *before = one - MOST_BLOCKS;
            auto past = [](unsigned t, unsigned than) { return int(t - than); };
            unsigned zero = before[0].end, ended = one[0].end;
            for (int b = 0; b < next; ++b) if (past(before[b].end, zero) > 0) zero = before[b].end;
            for (int b = 0; b < blocks; ++b) if (past(one[b].end, ended) > 0) ended = one[b].end;
            int begin = 1 << 30, waited = 1 << 30, first = 1 << 30, last = -(1 << 30), free = 1 << 30, all = -(1 << 30);
            for (int b = 0; b < blocks; ++b) begin = std::min(begin, past(one[b].begin, zero)), waited = std::min(waited, past(one[b].waited, zero));
            for (int b = 0; b < next; ++b) {
                first = std::min(first, past(two[b].begin, ended)), last = std::max(last, past(two[b].begin, ended));
                free = std::min(free, past(two[b].waited, ended)), all = std::max(all, past(two[b].waited, ended));
            }
            int took = past(ended, zero) - waited;
            double values[8] = {double(begin), double(waited), double(took), double(first), double(last), double(free), double(all), ms * 1e6 / PAIRS};
            for (int i = 0; i < 8; ++i) sums[i] += values[i];
            ++count;
        }
    }
    CHECK(cudaGraphExecDestroy(exec)), CHECK(cudaGraphDestroy(graph)), CHECK(cudaEventDestroy(from)), CHECK(cudaEventDestroy(to));
    printf("{\"blocks\": %d, \"vectors\": %d, \"cold\": %d, \"next\": %d, \"smem\": %d, \"pdl\": %d, \"early\": %d", blocks, VECTORS, cold, next, smem, pdl, early);
    const char* names[8] = {"begin", "waited", "took", "first", "last", "free", "all_free", "pair"};
    for (int i = 0; i < 8; ++i) printf(", \"%s\": %.0f", names[i], sums[i] / count);
    printf("}\n");
    fflush(stdout);
}

template <int VECTORS> static void shapes() {
    const int seconds[][2] = {{16, 98304}, {64, 0}, {64, 98304}, {132, 0}, {132, 196608}}, modes[][2] = {{0, 0}, {1, 1}, {2, 1}, {2, 0}};
    for (int cold = 0; cold < (VECTORS ? 2 : 1); ++cold)
        for (int blocks : {1, 16, 64, 132, 264, 512})
            for (auto second : seconds)
                for (auto mode : modes) tell<VECTORS>(blocks, second[0], second[1], mode[0], mode[1], cold);
}

int main() {
    CHECK(cudaMalloc(&g_from, SOURCE)), CHECK(cudaMalloc(&g_to, SOURCE)), CHECK(cudaMalloc(&g_other, 256 << 20));
    CHECK(cudaMemset(g_from, 0, SOURCE)), CHECK(cudaMemset(g_other, 0, 256 << 20));
    CHECK(cudaMalloc(&g_stamps, sizeof(Stamp) * 2 * PAIRS * MOST_BLOCKS)), CHECK(cudaMalloc(&g_out, 1 << 16)), CHECK(cudaStreamCreate(&g_stream));
    shapes<0>(), shapes<1>(), shapes<4>();
    return 0;
}
