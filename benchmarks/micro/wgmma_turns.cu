// Two warpgroups that multiply and then add, over and over: do their products take turns, and do they stay in step?
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a wgmma_turns.cu -o wgmma_turns && ./wgmma_turns
//
// One SM, one block of two warpgroups. Each issues a group of products m64nNk16, waits for it, and then executes ADDS
// dependent rounds of FADD (32 independent sums), as often as GROUPS says. The second warpgroup starts DELAY cycles later.
// "ends": of the first group of each warpgroup, cycles after the first warpgroup began; "period": cycles from one group to
// the next, mean of the last half; "phase": how far the second is behind the first then, as a share of the period.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

__device__ __forceinline__ unsigned long long descriptor(const void* at) {
    unsigned long long address = (unsigned long long)__cvta_generic_to_shared(at);
    return (address & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define R8(o) "+f"(d[o]), "+f"(d[o + 1]), "+f"(d[o + 2]), "+f"(d[o + 3]), "+f"(d[o + 4]), "+f"(d[o + 5]), "+f"(d[o + 6]), "+f"(d[o + 7])
#define R32(o) R8(o), R8(o + 8), R8(o + 16), R8(o + 24)
#define N32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define N64 N32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define OPERATION(n) "{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32.bf16.bf16 "
template <int N> struct Products;
#define PRODUCTS_OF(n, names, sums, first, second, third, fourth, fifth)                                                       \
    template <> struct Products<n> {                                                                                           \
        static __device__ __forceinline__ void shared(float (&d)[n / 2], unsigned long long a, unsigned long long b) {         \
            asm volatile(OPERATION(#n) "{" names "}, " first ", " second ", p, 1, 1, 0, 0;}" : sums : "l"(a), "l"(b));         \
        }                                                                                                                      \
        static __device__ __forceinline__ void registers(float (&d)[n / 2], const unsigned (&a)[4], unsigned long long b) {    \
            asm volatile(OPERATION(#n) "{" names "}, {" first "," second "," third "," fourth "}, " fifth ", p, 1, 1, 0;}"     \
                         : sums : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                         \
        }                                                                                                                      \
    }
PRODUCTS_OF(64, N32, R32(0), "%32", "%33", "%34", "%35", "%36");
#define S64 R32(0), R32(32)
PRODUCTS_OF(128, N64, S64, "%64", "%65", "%66", "%67", "%68");

constexpr int GROUPS = 64, FRAGMENTS = 4, SUMS = 32;

template <int N, bool REGISTERS, int PRODUCTS>
__global__ void __launch_bounds__(256, 1) loop(long long* times, float* out, int adds, int delay) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    for (int n = threadIdx.x; n < 65536 / 16; n += blockDim.x) ((uint4*)tiles)[n] = {};
    asm volatile("fence.proxy.async;" ::: "memory");
    const int warpgroup = threadIdx.x / 128;
    const bool tells = threadIdx.x % 128 == 0;
    float d[N / 2], sums[SUMS];
    unsigned a[FRAGMENTS][4];
    for (int n = 0; n < N / 2; ++n) d[n] = 0;
    for (int n = 0; n < SUMS; ++n) sums[n] = threadIdx.x * n;
    for (int n = 0; n < 4 * FRAGMENTS; ++n) a[n / 4][n % 4] = threadIdx.x >> n % 8;
    const unsigned long long from = descriptor(tiles + warpgroup * 8192), b = descriptor(tiles + 16384);
    __syncthreads();
    const long long begin = now();
    if (warpgroup)
        while (now() - begin < delay) {}
#pragma unroll 1
    for (int g = 0; g < GROUPS; ++g) {
        const long long start = now();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int p = 0; p < PRODUCTS; ++p) {
            if (REGISTERS)
                Products<N>::registers(d, a[p % FRAGMENTS], b);
            else
                Products<N>::shared(d, from, b);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        const long long end = now();
        if (tells) times[(warpgroup * GROUPS + g) * 2] = start, times[(warpgroup * GROUPS + g) * 2 + 1] = end;
#pragma unroll 1
        for (int r = 0; r < adds; ++r)
#pragma unroll
            for (int n = 0; n < SUMS; ++n) asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(sums[n]) : "f"(d[n % (N / 2)]));
    }
    float sum = 0;
    for (int n = 0; n < SUMS; ++n) sum += sums[n];
    for (int n = 0; n < 4 * FRAGMENTS; ++n) sum += a[n / 4][n % 4];
    if (sum == 12345) out[threadIdx.x] = sum;
    if (threadIdx.x == 0) times[4 * GROUPS] = begin;
}

static long long* g_times;

template <int N, bool REGISTERS, int PRODUCTS> static void tell(int adds, int delay) {
    auto* kernel = loop<N, REGISTERS, PRODUCTS>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
    long long t[4 * GROUPS + 1];
    for (int n = 0; n < 3; ++n) kernel<<<1, 256, 65536>>>(g_times, (float*)g_times + 4096, adds, delay);
    CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(t, g_times, sizeof t, cudaMemcpyDeviceToHost));
    const auto start = [&](int w, int g) { return t[(w * GROUPS + g) * 2]; };
    const auto end = [&](int w, int g) { return t[(w * GROUPS + g) * 2 + 1]; };
    const int half = GROUPS / 2, last = GROUPS - 8;  // the last few may run alone
    double period = double(start(0, last) - start(0, half)) / (last - half), behind = 0, busy[2] = {};
    for (int g = half; g < last; ++g) {
        long long after = start(1, 0);
        for (int h = 0; h < GROUPS; ++h)
            if (start(1, h) >= start(0, g)) { after = start(1, h); break; }
        behind += double(after - start(0, g)) / (last - half);
        for (int w = 0; w < 2; ++w) busy[w] += double(end(w, g) - start(w, g)) / (last - half);
    }
    printf("{\"n\": %d, \"a\": \"%s\", \"products\": %d, \"adds\": %d, \"delay\": %d, \"ends\": [%lld, %lld], \"period\": %.1f, "
           "\"phase\": %.3f, \"group\": [%.1f, %.1f]}\n",
           N, REGISTERS ? "registers" : "shared", PRODUCTS, adds * SUMS, delay, end(0, 0) - t[4 * GROUPS], end(1, 0) - t[4 * GROUPS],
           period, behind / period, busy[0], busy[1]);
    fflush(stdout);
}

template <int N, bool REGISTERS, int PRODUCTS> static void all() {
    for (int adds : {0, 4, 8, 16, 32})
        for (int delay : {0, 100, 300, 600}) tell<N, REGISTERS, PRODUCTS>(adds, delay);
}

int main() {
    CHECK(cudaMalloc(&g_times, 1 << 20));
    all<64, true, 12>(), all<64, true, 24>(), all<64, false, 12>(), all<64, false, 24>();
    all<128, true, 12>(), all<128, false, 12>();
    return 0;
}
