// Latency and throughput of single instructions on one SM, in cycles of its clock.
//
//     nvcc -O3 -gencode arch=compute_90a,code=sm_90a latency_and_throughput.cu -o micro && ./micro
//
// Latency: one warp runs a chain in which every instruction needs the result of the one before. Throughput: blocks of 4
// to 32 warps run several chains at once, and the longest time of a warp is divided by what all warps did. Each line of
// the output is a JSON object: what was measured, warps, cycles per instruction (latency), or warp instructions per cycle
// of the SM (throughput). Loops are unrolled 64 times, so their own instructions weigh at most a few per cent.

#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                   \
    do {                                                                                              \
        cudaError_t e = (call);                                                                       \
        if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e)); return 1; } \
    } while (0)

constexpr int ROUNDS = 16, UNROLL = 64;

#define STEP64(body) _Pragma("unroll") for (int u = 0; u < UNROLL; ++u) { body; }

__device__ __forceinline__ long long now() {
    long long t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}

// One kernel per instruction. CHAINS values of TYPE go through OP; the result is stored so that it is needed.
#define CHAIN(NAME, TYPE, START, OP)                                                                  \
    template <int CHAINS> __global__ void NAME(long long* cycles, TYPE* out, TYPE a, TYPE b) {        \
        TYPE x[CHAINS];                                                                               \
        for (int c = 0; c < CHAINS; ++c) x[c] = START;                                                \
        __syncthreads();                                                                              \
        long long begin = now();                                                                      \
        for (int r = 0; r < ROUNDS; ++r)                                                              \
            STEP64(_Pragma("unroll") for (int c = 0; c < CHAINS; ++c) { OP; })                        \
        long long end = now();                                                                        \
        for (int c = 0; c < CHAINS; ++c) out[1024 * c + threadIdx.x] = x[c];                          \
        cycles[threadIdx.x] = end - begin;                                                            \
    }

CHAIN(ffma, float, (int)(a + c + threadIdx.x), asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x[c]) : "f"(a), "f"(b)))
CHAIN(fadd, float, (int)(a + c + threadIdx.x), asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(x[c]) : "f"(b)))
CHAIN(fmul, float, (int)(a + c + threadIdx.x), asm volatile("mul.rn.f32 %0, %0, %1;" : "+f"(x[c]) : "f"(b)))
CHAIN(imad, int, (int)(a + c + threadIdx.x), asm volatile("mad.lo.s32 %0, %0, %1, %2;" : "+r"(x[c]) : "r"(a), "r"(b)))
CHAIN(lop3, int, (int)(a + c + threadIdx.x), asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(x[c]) : "r"(a), "r"(b)))
CHAIN(shift, int, (int)(a + c + threadIdx.x), asm volatile("shf.l.wrap.b32 %0, %0, %1, %2;" : "+r"(x[c]) : "r"(a), "r"(b)))
CHAIN(prmt, int, (int)(a + c + threadIdx.x), asm volatile("prmt.b32 %0, %0, %1, %2;" : "+r"(x[c]) : "r"(a), "r"(b)))
CHAIN(hfma2, unsigned, (int)(a + c + threadIdx.x), asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x[c]) : "r"(a), "r"(b)))
CHAIN(dfma, double, (int)(a + c + threadIdx.x), asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(x[c]) : "d"(a), "d"(b)))
CHAIN(mufu_ex2, float, (int)(a + c + threadIdx.x), asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[c])))
CHAIN(popc, unsigned, (int)(a + c + threadIdx.x), asm volatile("popc.b32 %0, %0;" : "+r"(x[c])))
CHAIN(shfl, unsigned, (int)(a + c + threadIdx.x), asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, -1;" : "+r"(x[c])))
CHAIN(dp4a, int, (int)(a + c + threadIdx.x), asm volatile("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(x[c]) : "r"(a), "r"(b)))

// Predicate made and used: a comparison, then an addition that it guards.
CHAIN(isetp_guarded_iadd, int, (int)(a + c + threadIdx.x),
      asm volatile("{.reg .pred p; setp.lt.s32 p, %0, %1; @p add.s32 %0, %0, %2;}" : "+r"(x[c]) : "r"(a), "r"(b)))

// Tensor cores: D is the next C. A and B are constant.
#define MMA(NAME, TEXT, NA, NB)                                                                       \
    template <int CHAINS> __global__ void NAME(long long* cycles, unsigned* out, unsigned a, unsigned b) { \
        unsigned x[CHAINS][4];                                                                        \
        for (int c = 0; c < CHAINS; ++c) for (int n = 0; n < 4; ++n) x[c][n] = c;                     \
        a += threadIdx.x, b += threadIdx.x;                                                           \
        __syncthreads();                                                                              \
        long long begin = now();                                                                      \
        for (int r = 0; r < ROUNDS; ++r)                                                              \
            STEP64(_Pragma("unroll") for (int c = 0; c < CHAINS; ++c)                                 \
                   asm volatile(TEXT : "+r"(x[c][0]), "+r"(x[c][1]), "+r"(x[c][2]), "+r"(x[c][3]) : "r"(a), "r"(b))) \
        long long end = now();                                                                        \
        for (int c = 0; c < CHAINS; ++c) out[1024 * c + threadIdx.x] = x[c][0];                       \
        cycles[threadIdx.x] = end - begin;                                                            \
    }
MMA(hmma_16816_f32, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};", 4, 2)
MMA(hmma_16816_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};", 4, 2)
MMA(hmma_1688_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};", 4, 2)
MMA(imma_16832_s8, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};", 4, 2)

// Shared memory: a chain of loads whose result is the next address (all zeros plus the lane's own offset).
template <int WIDTH> __global__ void lds_chain(long long* cycles, unsigned* out) {
    __shared__ alignas(16) unsigned memory[32 * 4];
    for (int n = 0; n < WIDTH / 4; ++n) memory[threadIdx.x * (WIDTH / 4) + n] = threadIdx.x * WIDTH;
    __syncthreads();
    unsigned base = (unsigned)__cvta_generic_to_shared(memory), x = threadIdx.x * WIDTH + base, y, z, w;
    memory[threadIdx.x * (WIDTH / 4)] = x;
    __syncthreads();
    long long begin = now();
    for (int r = 0; r < ROUNDS; ++r) {
        if (WIDTH == 4) STEP64(asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(x)))
        if (WIDTH == 8) STEP64(asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%0];" : "+r"(x), "=r"(y)))
        if (WIDTH == 16) STEP64(asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%0];" : "+r"(x), "=r"(y), "=r"(z), "=r"(w)))
    }
    long long end = now();
    out[threadIdx.x] = x;
    cycles[threadIdx.x] = end - begin;
}

template <int WIDTH, int KIND> __global__ void shared_rate(long long* cycles, unsigned* out) {
    extern __shared__ uint4 memory[];
    unsigned base = (unsigned)__cvta_generic_to_shared(memory);
    unsigned at = base + (threadIdx.x % 32) * WIDTH + threadIdx.x / 32 * 512 % 16384;
    unsigned a = 0, b = 0, c = 0, d = 0, sum = 0;
    __syncthreads();
    long long begin = now();
    for (int r = 0; r < ROUNDS; ++r) {
        STEP64(
            if (KIND == 0 && WIDTH == 4) asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(a) : "r"(at));
            if (KIND == 0 && WIDTH == 8) asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(at));
            if (KIND == 0 && WIDTH == 16) asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at));
            if (KIND == 1 && WIDTH == 4) asm volatile("st.volatile.shared.u32 [%0], %1;" :: "r"(at), "r"(sum));
            if (KIND == 1 && WIDTH == 8) asm volatile("st.volatile.shared.v2.u32 [%0], {%1, %1};" :: "r"(at), "r"(sum));
            if (KIND == 1 && WIDTH == 16) asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %1, %1, %1};" :: "r"(at), "r"(sum));
)
    }
    long long end = now();
    out[threadIdx.x] = a + b + c + d + sum;
    cycles[threadIdx.x] = end - begin;
}

// Memory holds zeros, which are added to the address of the next load.
template <int CHAINS> __global__ void ldmatrix_x4_and_iadd(long long* cycles, unsigned* out, unsigned, unsigned) {
    __shared__ alignas(16) unsigned memory[32 * 4 * CHAINS];
    unsigned base = (unsigned)__cvta_generic_to_shared(memory) + threadIdx.x % 32 * 16, x[CHAINS], y, z, w;
    if (threadIdx.x < 32) for (int n = 0; n < 4 * CHAINS; ++n) memory[threadIdx.x * 4 * CHAINS + n] = 0;
    for (int c = 0; c < CHAINS; ++c) x[c] = 0;
    __syncthreads();
    long long begin = now();
    for (int r = 0; r < ROUNDS; ++r)
        STEP64(_Pragma("unroll") for (int c = 0; c < CHAINS; ++c)
               asm volatile("{.reg .b32 t; add.u32 t, %0, %4; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [t];}"
                            : "+r"(x[c]), "=r"(y), "=r"(z), "=r"(w) : "r"(base + 512 * c)))
    long long end = now();
    for (int c = 0; c < CHAINS; ++c) out[1024 * c + threadIdx.x] = x[c] + y + z + w;
    cycles[threadIdx.x] = end - begin;
}

// Global memory: a chain through a ring of given size and stride, after one warm-up round if it fits a cache.
template <int CACHE> __global__ void ldg_chain(long long* cycles, unsigned long long* out, const unsigned long long* start, int steps) {
    const unsigned long long* p = start;
    for (int round = 0; round < 2; ++round) {
        long long begin = now();
        for (int n = 0; n < steps; ++n) {
            if (CACHE == 1) asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(p));
            else asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(p));
        }
        long long end = now();
        cycles[round] = end - begin;
    }
    out[0] = (unsigned long long)p;
}

__global__ void barrier(long long* cycles) {
    __syncthreads();
    long long begin = now();
    for (int r = 0; r < ROUNDS; ++r) STEP64(asm volatile("bar.sync 0;" ::: "memory"))
    long long end = now();
    cycles[threadIdx.x] = end - begin;
}

// wgmma with both operands in shared memory, 128-byte swizzle; contents do not matter.
__device__ __forceinline__ unsigned long long descriptor(const void* at) {
    unsigned long long address = (unsigned long long)__cvta_generic_to_shared(at);
    return (address & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

template <int N> __global__ void __launch_bounds__(256) wgmma_rate(long long* cycles, float* out) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    float d[N / 2];
    for (int n = 0; n < N / 2; ++n) d[n] = 0;
    unsigned long long a = descriptor(tiles + threadIdx.x / 128 * 8192), b = descriptor(tiles + 16384);
    __syncthreads();
    long long begin = now();
    for (int r = 0; r < ROUNDS; ++r) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int u = 0; u < 16; ++u) {
            if constexpr (N == 64)
                asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                             "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0;}"
                             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                               "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                               "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                               "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                             : "l"(a), "l"(b));
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    long long end = now();
    float sum = 0;
    for (int n = 0; n < N / 2; ++n) sum += d[n];
    out[threadIdx.x] = sum;
    cycles[threadIdx.x] = end - begin;
}

static long long* g_cycles;
static void* g_out;
static long long host[1024];

static long long longest(int threads) {
    if (cudaDeviceSynchronize() != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(cudaGetLastError())); return -1; }
    cudaMemcpy(host, g_cycles, sizeof(long long) * threads, cudaMemcpyDeviceToHost);
    long long most = 0;
    for (int n = 0; n < threads; ++n) most = host[n] > most ? host[n] : most;
    return most;
}

static void latency(const char* name, long long cycles) {
    printf("{\"what\": \"latency\", \"instruction\": \"%s\", \"cycles\": %.3f}\n", name, double(cycles) / (ROUNDS * UNROLL));
}

static void rate(const char* name, int warps, int chains, long long cycles) {
    printf("{\"what\": \"throughput\", \"instruction\": \"%s\", \"warps\": %d, \"per_cycle\": %.4f}\n", name, warps,
           double(warps) * chains * ROUNDS * UNROLL / double(cycles));
}

#define MEASURE(NAME, TYPE, A, B)                                                                     \
    for (int again = 0; again < 2; ++again) NAME<1><<<1, 32>>>(g_cycles, (TYPE*)g_out, A, B);         \
    latency(#NAME, longest(32));                                                                      \
    for (int warps = 4; warps <= 32; warps *= 2) {                                                    \
        for (int again = 0; again < 2; ++again) NAME<4><<<1, 32 * warps>>>(g_cycles, (TYPE*)g_out, A, B); \
        rate(#NAME, warps, 4, longest(32 * warps));                                                   \
    }

#define RATE(NAME, WIDTH, KIND)                                                                       \
    for (int warps = 4; warps <= 32; warps *= 2) {                                                    \
        for (int again = 0; again < 2; ++again)                                                       \
            shared_rate<WIDTH, KIND><<<1, 32 * warps, 32768>>>(g_cycles, (unsigned*)g_out);           \
        rate(NAME, warps, 1, longest(32 * warps));                                                    \
    }

int main() {
    CHECK(cudaMalloc(&g_cycles, sizeof(host)));
    CHECK(cudaMalloc(&g_out, 1 << 20));
    MEASURE(ffma, float, 1.0f, 0.5f)
    MEASURE(fadd, float, 1.0f, 0.5f)
    MEASURE(fmul, float, 1.0f, 1.5f)
    MEASURE(imad, int, 1, 3)
    MEASURE(lop3, int, 1, 3)
    MEASURE(shift, int, 1, 3)
    MEASURE(prmt, int, 1, 3)
    MEASURE(hfma2, unsigned, 1, 3)
    MEASURE(dfma, double, 1.0, 0.5)
    MEASURE(mufu_ex2, float, 1.0f, 0.5f)
    MEASURE(popc, unsigned, 1, 3)
    MEASURE(shfl, unsigned, 1, 3)
    MEASURE(dp4a, int, 1, 3)
    MEASURE(isetp_guarded_iadd, int, 1 << 30, 3)
    MEASURE(hmma_16816_f32, unsigned, 0, 0)
    MEASURE(hmma_16816_bf16, unsigned, 0, 0)
    MEASURE(hmma_1688_tf32, unsigned, 0, 0)
    MEASURE(imma_16832_s8, unsigned, 0, 0)
    for (int again = 0; again < 2; ++again) lds_chain<4><<<1, 32>>>(g_cycles, (unsigned*)g_out);
    latency("ld.shared.b32", longest(32));
    for (int again = 0; again < 2; ++again) lds_chain<8><<<1, 32>>>(g_cycles, (unsigned*)g_out);
    latency("ld.shared.b64", longest(32));
    for (int again = 0; again < 2; ++again) lds_chain<16><<<1, 32>>>(g_cycles, (unsigned*)g_out);
    latency("ld.shared.b128", longest(32));
    MEASURE(ldmatrix_x4_and_iadd, unsigned, 0, 0)
    RATE("ld.shared.b32", 4, 0)
    RATE("ld.shared.b64", 8, 0)
    RATE("ld.shared.b128", 16, 0)
    RATE("st.shared.b32", 4, 1)
    RATE("st.shared.b64", 8, 1)
    RATE("st.shared.b128", 16, 1)
    for (int warps = 1; warps <= 32; warps *= 2) {
        for (int again = 0; again < 2; ++again) barrier<<<1, 32 * warps>>>(g_cycles);
        printf("{\"what\": \"latency\", \"instruction\": \"bar.sync\", \"warps\": %d, \"cycles\": %.3f}\n", warps,
               double(longest(32 * warps)) / (ROUNDS * UNROLL));
    }
    // Rings in global memory: 16 KiB (L1), 8 MiB (L2), 1 GiB (DRAM).
    size_t sizes[] = {16 << 10, 128 << 10, 1 << 20, 8 << 20, 40 << 20, 1 << 30};
    size_t strides[] = {128, 128, 256, 4096, 16384, 1 << 20};
    for (int s = 0; s < 6; ++s) {
        unsigned long long *ring, *filled = (unsigned long long*)malloc(sizes[s]);
        CHECK(cudaMalloc(&ring, sizes[s]));
        size_t count = sizes[s] / strides[s], each = strides[s] / 8;
        for (size_t n = 0; n < count; ++n) filled[n * each] = (unsigned long long)(ring + ((n + 1) % count) * each);
        CHECK(cudaMemcpy(ring, filled, sizes[s], cudaMemcpyHostToDevice));
        int steps = count < 4096 ? int(count) : 4096;
        for (int cache = 0; cache < 2; ++cache) {
            if (cache) ldg_chain<1><<<1, 1>>>(g_cycles, (unsigned long long*)g_out, ring, steps);
            else ldg_chain<0><<<1, 1>>>(g_cycles, (unsigned long long*)g_out, ring, steps);
            longest(2);
            printf("{\"what\": \"latency\", \"instruction\": \"ld.global.%s\", \"bytes\": %zu, \"stride\": %zu, \"first_round\": %.1f, "
                   "\"second_round\": %.1f}\n", cache ? "ca" : "cg", sizes[s], strides[s], double(host[0]) / steps, double(host[1]) / steps);
        }
        cudaFree(ring);
        free(filled);
    }
    CHECK(cudaFuncSetAttribute(wgmma_rate<64>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
    for (int groups = 1; groups <= 2; ++groups) {
        for (int again = 0; again < 2; ++again) wgmma_rate<64><<<1, 128 * groups, 65536>>>(g_cycles, (float*)g_out);
        long long cycles = longest(128 * groups);
        printf("{\"what\": \"throughput\", \"instruction\": \"wgmma.m64n64k16.bf16\", \"warpgroups\": %d, \"cycles_each\": %.2f}\n", groups,
               double(cycles) / (ROUNDS * 16 * groups));
    }
    return 0;
}
