// Bandwidths, queues and power of the whole GPU: parameters of the time model that one SM alone does not show.
//
//     nvcc -O3 -gencode arch=compute_90a,code=sm_90a memory_and_power.cu -o memory && ./memory
//
// Every line of the output is a JSON object. "bytes_per_cycle" is per SM. Loops that say "watts" run for at least 0.6 s,
// so that nvidia-smi, asked for while they run, sees the power and the clock that they settle at.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)

__device__ __forceinline__ long long now() {
    long long t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}

static int g_sms;
static long long* g_cycles;
static void* g_out;
static long long host[8192];

static double longest(int blocks) {
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host, g_cycles, sizeof(long long) * blocks, cudaMemcpyDeviceToHost));
    long long most = 0;
    for (int n = 0; n < blocks; ++n) most = host[n] > most ? host[n] : most;
    return double(most);
}

// -- L2 and DRAM: all SMs read a buffer ---------------------------------------------------------------------------

// Each warp reads 512 contiguous bytes at a time (LDG.128), warps of a block follow one another. SAME: all SMs read the same.
template <int WIDTH> __global__ void read_all(long long* cycles, unsigned* out, const uint4* data, size_t units, int rounds, int same) {
    size_t threads = same ? blockDim.x : size_t(gridDim.x) * blockDim.x;
    size_t at = same ? threadIdx.x : size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    unsigned sum = 0;
    __syncthreads();
    long long begin = now();
    for (int r = 0; r < rounds; ++r) {
        for (size_t n = at; n + 3 * threads < units; n += 4 * threads) {
            uint4 v[4];
#pragma unroll
            for (int u = 0; u < 4; ++u)
                asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[u].x), "=r"(v[u].y), "=r"(v[u].z), "=r"(v[u].w) : "l"(data + n + u * threads));
#pragma unroll
            for (int u = 0; u < 4; ++u) sum += v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
        }
    }
    long long end = now();
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - begin;
    out[threadIdx.x] = sum;
}

static void bandwidth(const char* name, const void* data, size_t bytes, int rounds, int same, int threads, int per_sm, int sms) {
    cudaEvent_t a, b;
    CHECK(cudaEventCreate(&a)), CHECK(cudaEventCreate(&b));
    int blocks = sms * per_sm;
    read_all<16><<<blocks, threads>>>(g_cycles, (unsigned*)g_out, (const uint4*)data, bytes / 16, 1, same);
    CHECK(cudaEventRecord(a));
    read_all<16><<<blocks, threads>>>(g_cycles, (unsigned*)g_out, (const uint4*)data, bytes / 16, rounds, same);
    CHECK(cudaEventRecord(b));
    double cycles = longest(blocks);
    float ms;
    CHECK(cudaEventElapsedTime(&ms, a, b));
    double moved = double(bytes) * rounds * (same ? blocks : 1);
    printf("{\"what\": \"%s\", \"bytes\": %zu, \"sms\": %d, \"threads\": %d, \"blocks_per_sm\": %d, \"gb_per_s\": %.1f, \"bytes_per_cycle\": %.2f}\n",
           name, bytes, sms, threads, per_sm, moved / ms / 1e6, moved / cycles / sms);
}

// One warp with a growing number of loads in flight: latency under load is the other side of bandwidth.
__global__ void store_all(uint4* data, size_t units, int rounds) {
    for (int r = 0; r < rounds; ++r)
        for (size_t n = size_t(blockIdx.x) * blockDim.x + threadIdx.x; n < units; n += size_t(gridDim.x) * blockDim.x)
            data[n] = make_uint4(r, r, r, r);
}

// -- launches -----------------------------------------------------------------------------------------------------

__global__ void empty_kernel(int) {}
extern __shared__ unsigned char dynamic_bytes[];
__global__ void spin_kernel(int cycles) { long long b = now(); while (now() - b < cycles) {} }

static void launches(int blocks, int threads, int smem, int spin) {
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    cudaGraph_t graph;
    cudaGraphExec_t run;
    CHECK(cudaFuncSetAttribute(spin_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    const int nodes = 200;
    for (int n = 0; n < nodes; ++n) spin_kernel<<<blocks, threads, smem, s>>>(spin);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&run, graph, 0));
    cudaEvent_t a, b;
    CHECK(cudaEventCreate(&a)), CHECK(cudaEventCreate(&b));
    float ms = 0;
    for (int again = 0; again < 2; ++again) {
        CHECK(cudaEventRecord(a, s));
        CHECK(cudaGraphLaunch(run, s));
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaStreamSynchronize(s));
        CHECK(cudaEventElapsedTime(&ms, a, b));
    }
    printf("{\"what\": \"launch\", \"blocks\": %d, \"threads\": %d, \"smem\": %d, \"spin_cycles\": %d, \"us\": %.3f}\n", blocks, threads, smem, spin, 1e3 * ms / nodes);
}

// -- wgmma and HMMA, by shape, contents as given ------------------------------------------------------------------

__device__ __forceinline__ unsigned long long descriptor(const void* at) {
    unsigned long long address = (unsigned long long)__cvta_generic_to_shared(at);
    return (address & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

template <int N> __device__ __forceinline__ void product(float* d, unsigned long long a, unsigned long long b);
#define R8(o) "+f"(d[o]), "+f"(d[o + 1]), "+f"(d[o + 2]), "+f"(d[o + 3]), "+f"(d[o + 4]), "+f"(d[o + 5]), "+f"(d[o + 6]), "+f"(d[o + 7])
#define R32(o) R8(o), R8(o + 8), R8(o + 16), R8(o + 24)
template <> __device__ __forceinline__ void product<64>(float* d, unsigned long long a, unsigned long long b) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0;}"
                 : R32(0) : "l"(a), "l"(b));
}
template <> __device__ __forceinline__ void product<128>(float* d, unsigned long long a, unsigned long long b) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1, 0, 0;}"
                 : R32(0), R32(32) : "l"(a), "l"(b));
}

template <int N, int DEPTH> __global__ void __launch_bounds__(256) wgmma_loop(long long* cycles, float* out, const uint4* fill, int rounds) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    for (int n = threadIdx.x; n < 65536 / 16; n += blockDim.x) ((uint4*)tiles)[n] = fill[n];
    float d[N / 2];
    for (int n = 0; n < N / 2; ++n) d[n] = 0;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    long long begin = now();
    for (int r = 0; r < rounds; ++r) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int u = 0; u < DEPTH; ++u) {
            unsigned long long a = descriptor(tiles + threadIdx.x / 128 * 8192 + u % 4 * 32), b = descriptor(tiles + 16384 + u % 4 * 32);
            product<N>(d, a, b);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    long long end = now();
    float sum = 0;
    for (int n = 0; n < N / 2; ++n) sum += d[n];
    out[threadIdx.x] = sum;
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - begin;
}

template <int N, int DEPTH> static void wgmma(const uint4* fill) {
    CHECK(cudaFuncSetAttribute(wgmma_loop<N, DEPTH>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
    for (int groups = 1; groups <= 2; ++groups) {
        wgmma_loop<N, DEPTH><<<1, 128 * groups, 65536>>>(g_cycles, (float*)g_out, fill, 256);
        double cycles = longest(1);
        printf("{\"what\": \"wgmma\", \"n\": %d, \"products_per_group\": %d, \"warpgroups\": %d, \"cycles_per_product\": %.2f}\n", N, DEPTH, groups,
               cycles / (256.0 * DEPTH * groups));
    }
}

__global__ void __launch_bounds__(256) hmma_loop(long long* cycles, float* out, const unsigned* fill, int rounds) {
    unsigned a[4][4], b[4][2];
    float d[4][4] = {};
    for (int n = 0; n < 16; ++n) a[n / 4][n % 4] = fill[threadIdx.x + 256 * n];
    for (int n = 0; n < 8; ++n) b[n / 2][n % 2] = fill[threadIdx.x + 256 * (16 + n)];
    long long begin = now();
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int u = 0; u < 32; ++u)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(d[u % 4][0]), "+f"(d[u % 4][1]), "+f"(d[u % 4][2]), "+f"(d[u % 4][3])
                         : "r"(a[u / 4 % 4][0]), "r"(a[u / 4 % 4][1]), "r"(a[u / 4 % 4][2]), "r"(a[u / 4 % 4][3]), "r"(b[u % 4][0]), "r"(b[u % 4][1]));
    long long end = now();
    float sum = 0;
    for (int n = 0; n < 16; ++n) sum += d[n / 4][n % 4];
    out[threadIdx.x] = sum;
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - begin;
}

__global__ void __launch_bounds__(512) ffma_loop(long long* cycles, float* out, const float* fill, int rounds) {
    float x[16], a = fill[threadIdx.x], b = fill[threadIdx.x + 512];
    for (int n = 0; n < 16; ++n) x[n] = fill[threadIdx.x + 32 * n];
    long long begin = now();
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int u = 0; u < 64; ++u) x[u % 16] = fmaf(x[u % 16], a, b);
    long long end = now();
    float sum = 0;
    for (int n = 0; n < 16; ++n) sum += x[n];
    out[threadIdx.x] = sum;
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - begin;
}

__global__ void __launch_bounds__(512) lds_loop(long long* cycles, float* out, const float* fill, int rounds) {
    __shared__ float4 tile[1024];
    for (int n = threadIdx.x; n < 4096; n += 512) ((float*)tile)[n] = fill[n];
    __syncthreads();
    float4 s = {0, 0, 0, 0};
    unsigned at = (unsigned)__cvta_generic_to_shared(tile) + threadIdx.x * 16;
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int u = 0; u < 32; ++u) {
            float4 v;
            asm volatile("ld.volatile.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at + (u & 1) * 8192));
            s.x += v.x, s.y += v.y;
        }
    out[threadIdx.x] = s.x + s.y + s.z + s.w;
    (void)cycles;
}

// Clock and power while a loop runs, as nvidia-smi says.
static void smi(char* text, size_t size) {
    FILE* p = popen("nvidia-smi --query-gpu=clocks.sm,power.draw.instant,clocks_event_reasons.sw_power_cap --format=csv,noheader,nounits", "r");
    text[0] = 0;
    if (p) { if (!fgets(text, int(size), p)) text[0] = 0; pclose(p); }
    text[strcspn(text, "\n")] = 0;
}

template <class F> static void watts(const char* name, const char* contents, double work, F launch) {
    cudaEvent_t a, b;
    CHECK(cudaEventCreate(&a)), CHECK(cudaEventCreate(&b));
    launch();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventRecord(a));
    launch();
    CHECK(cudaEventRecord(b));
    CHECK(cudaDeviceSynchronize());
    float each;
    CHECK(cudaEventElapsedTime(&each, a, b));
    int times = int(1200 / each) + 1;
    for (int n = 0; n < times; ++n) launch();
    char seen[3][160];
    for (int n = 0; n < 3; ++n) smi(seen[n], 160);
    CHECK(cudaEventRecord(a));
    launch();
    CHECK(cudaEventRecord(b));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventElapsedTime(&each, a, b));
    printf("{\"what\": \"watts\", \"loop\": \"%s\", \"contents\": \"%s\", \"ms\": %.4f, \"work_per_s\": %.4e, \"smi\": [\"%s\", \"%s\", \"%s\"]}\n", name, contents, each,
           work / each * 1e3, seen[0], seen[1], seen[2]);
    fflush(stdout);
}

int main() {
    cudaDeviceProp about;
    CHECK(cudaGetDeviceProperties(&about, 0));
    g_sms = about.multiProcessorCount;
    CHECK(cudaMalloc(&g_cycles, sizeof(host)));
    CHECK(cudaMalloc(&g_out, 1 << 20));
    size_t big = size_t(4) << 30;
    unsigned char* data;
    CHECK(cudaMalloc(&data, big));
    CHECK(cudaMemset(data, 0, big));
    for (int threads : {128, 256, 1024})
        for (int per_sm : {1, 2}) {
            bandwidth("L2 read", data, 16 << 20, 40, 0, threads, per_sm, g_sms);
            bandwidth("L2 read, one SM", data, 1 << 20, 20, 0, threads, per_sm, 1);
        }
    bandwidth("L2 read", data, 32 << 20, 20, 0, 1024, 2, g_sms);
    bandwidth("L2 read, all SMs the same", data, 1 << 20, 10, 1, 1024, 1, g_sms);
    bandwidth("L2 read, all SMs the same", data, 8 << 20, 4, 1, 1024, 1, g_sms);
    bandwidth("DRAM read", data, big, 2, 0, 1024, 2, g_sms);
    {
        cudaEvent_t a, b;
        CHECK(cudaEventCreate(&a)), CHECK(cudaEventCreate(&b));
        for (size_t bytes : {size_t(16) << 20, big}) {
            int rounds = bytes == big ? 1 : 50;
            store_all<<<g_sms * 2, 1024>>>((uint4*)data, bytes / 16, 1);
            CHECK(cudaEventRecord(a));
            store_all<<<g_sms * 2, 1024>>>((uint4*)data, bytes / 16, rounds);
            CHECK(cudaEventRecord(b));
            CHECK(cudaDeviceSynchronize());
            float ms;
            CHECK(cudaEventElapsedTime(&ms, a, b));
            printf("{\"what\": \"store\", \"bytes\": %zu, \"gb_per_s\": %.1f}\n", bytes, double(bytes) * rounds / ms / 1e6);
        }
    }
    for (int blocks : {1, 132, 264, 1056, 4224, 16896, 67584}) launches(blocks, 128, 0, 0);
    for (int blocks : {132, 264, 1056, 16896}) launches(blocks, 1024, 0, 0);
    for (int blocks : {132, 1056}) launches(blocks, 128, 200 << 10, 0), launches(blocks, 128, 200 << 10, 4000);
    for (int blocks : {132, 264, 528}) launches(blocks, 1024, 0, 4000);
    launches(264, 256, 64 << 10, 4000), launches(1056, 256, 64 << 10, 4000);
    // Contents: zeros, and numbers of normal size with random bits below.
    unsigned short* mixed = (unsigned short*)malloc(1 << 20);
    srand(1);
    for (int n = 0; n < 1 << 19; ++n) mixed[n] = (unsigned short)((rand() & 0x83FF) | ((12 + rand() % 4) << 10));
    float* floats = (float*)malloc(1 << 20);
    for (int n = 0; n < 1 << 18; ++n) floats[n] = 2.0f * rand() / RAND_MAX - 1.0f;
    unsigned char *zeros, *noise, *fnoise;
    CHECK(cudaMalloc(&zeros, 1 << 20)), CHECK(cudaMalloc(&noise, 1 << 20)), CHECK(cudaMalloc(&fnoise, 1 << 20));
    CHECK(cudaMemset(zeros, 0, 1 << 20));
    CHECK(cudaMemcpy(noise, mixed, 1 << 20, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(fnoise, floats, 1 << 20, cudaMemcpyHostToDevice));
    wgmma<64, 1>((uint4*)zeros), wgmma<64, 4>((uint4*)zeros), wgmma<64, 16>((uint4*)zeros);
    wgmma<128, 1>((uint4*)zeros), wgmma<128, 4>((uint4*)zeros), wgmma<128, 16>((uint4*)zeros);
    for (int random = 0; random < 2; ++random) {
        const char* contents = random ? "random" : "zeros";
        unsigned char* half = random ? noise : zeros;
        unsigned char* full = random ? fnoise : zeros;
        int rounds = 4000;
        watts("wgmma m64n128k16, 2 warpgroups an SM", contents, double(g_sms) * 2 * 16 * rounds * 2 * 64 * 128 * 16,
              [&] { wgmma_loop<128, 16><<<g_sms, 256, 65536>>>(g_cycles, (float*)g_out, (uint4*)half, rounds); });
        watts("hmma m16n8k16, 8 warps an SM", contents, double(g_sms) * 8 * 32 * rounds * 4096,
              [&] { hmma_loop<<<g_sms, 256>>>(g_cycles, (float*)g_out, (unsigned*)half, rounds); });
        watts("ffma, 16 warps an SM", contents, double(g_sms) * 512 * 64 * rounds * 2,
              [&] { ffma_loop<<<g_sms, 512>>>(g_cycles, (float*)g_out, (float*)full, rounds); });
        watts("LDS.128, 16 warps an SM", contents, double(g_sms) * 512 * 32 * rounds * 16,
              [&] { lds_loop<<<g_sms, 512>>>(g_cycles, (float*)g_out, (float*)full, rounds); });
    }
    for (size_t bytes : {size_t(1) << 20}) for (int n = 0; n < 64; ++n) CHECK(cudaMemcpy(data + n * bytes, noise, bytes, cudaMemcpyDeviceToDevice));
    watts("L2 read of 16 MiB", "random", 40.0 * (16 << 20),
          [&] { read_all<16><<<g_sms * 2, 1024>>>(g_cycles, (unsigned*)g_out, (uint4*)data, (16 << 20) / 16, 40, 0); });
    for (size_t at = 64 << 20; at < big; at *= 2) CHECK(cudaMemcpy(data + at, data, at, cudaMemcpyDeviceToDevice));
    watts("DRAM read of 4 GiB", "random", double(big),
          [&] { read_all<16><<<g_sms * 2, 1024>>>(g_cycles, (unsigned*)g_out, (uint4*)data, big / 16, 1, 0); });
    return 0;
}
