// What other instructions cost while wgmma runs at full rate, by the columns of its products and by the registers they read.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a wgmma_columns.cu -o wgmma_columns && ./wgmma_columns
//
// One SM, one block. Its first warpgroup, or its last (ORDER), runs one instruction over and over; two warpgroups multiply:
// groups of 12 products m64nNk16, A in shared memory or in registers. "cycles": of one of the other instructions, one warp on
// each sub-core; "cycles_per_product": of one product, while the others go on. N 0: the other instructions alone.
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
#define N96 N64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define N128 N96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
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
#define S32 R32(0)
#define S64 S32, R32(32)
#define S96 S64, R32(64)
#define S128 S96, R32(96)
PRODUCTS_OF(64, N32, S32, "%32", "%33", "%34", "%35", "%36");
PRODUCTS_OF(128, N64, S64, "%64", "%65", "%66", "%67", "%68");
PRODUCTS_OF(192, N96, S96, "%96", "%97", "%98", "%99", "%100");
PRODUCTS_OF(256, N128, S128, "%128", "%129", "%130", "%131", "%132");

constexpr int BODY = 128, PRODUCTS = 12, FRAGMENTS = 4;
enum Kind { LOP1, LOP2, LOP3, FADD1, FADD, FFMA, F2FP, KINDS };

template <int N, bool REGISTERS, int KIND, bool FIRST>
__global__ void __launch_bounds__(384, 1) loop(long long* cycles, float* out, int groups, int products, int others) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    for (int n = threadIdx.x; n < 65536 / 16; n += blockDim.x) ((uint4*)tiles)[n] = {};
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    float sum = 0;
    int warpgroup = threadIdx.x / 128;
    bool multiplies = FIRST ? warpgroup > 0 : warpgroup < groups;
    long long begin = now(), end;
    if (multiplies) {
        float d[N / 2];
        unsigned a[FRAGMENTS][4];
        for (int n = 0; n < N / 2; ++n) d[n] = 0;
        for (int n = 0; n < 4 * FRAGMENTS; ++n) a[n / 4][n % 4] = threadIdx.x >> n % 8;
        unsigned long long from = descriptor(tiles + warpgroup % 2 * 8192), b = descriptor(tiles + 16384);
#pragma unroll 1
        for (int r = 0; r < products; ++r) {
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
        }
        end = now();
        for (int n = 0; n < N / 2; ++n) sum += d[n];
        for (int n = 0; n < 4 * FRAGMENTS; ++n) sum += a[n / 4][n % 4];
    } else {
        float x[16];
        unsigned y[16];
        for (int n = 0; n < 16; ++n) x[n] = threadIdx.x * n, y[n] = threadIdx.x + n;
#pragma unroll 1
        for (int r = 0; r < others; ++r)
#pragma unroll
            for (int n = 0; n < BODY; ++n) {
                if (KIND == LOP1) asm volatile("lop3.b32 %0, %0, 0x5a5a5, 0x33, 0x96;" : "+r"(y[n % 8]));
                if (KIND == LOP2) asm volatile("lop3.b32 %0, %0, %1, 0x33, 0x96;" : "+r"(y[n % 8]) : "r"(y[8 + n % 7]));
                if (KIND == LOP3) asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(y[n % 8]) : "r"(y[8 + n % 3]), "r"(y[11 + n % 5]));
                if (KIND == FADD1) asm volatile("add.rn.f32 %0, %0, 0f3F8CCCCD;" : "+f"(x[n % 8]));
                if (KIND == FADD) asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(x[n % 8]) : "f"(x[8 + n % 7]));
                if (KIND == FFMA) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(x[n % 8]) : "f"(x[8 + n % 3]), "f"(x[11 + n % 5]));
                if (KIND == F2FP) asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y[n % 8]) : "f"(x[n % 7]), "f"(x[8 + n % 5]));
            }
        end = now();
        for (int n = 0; n < 16; ++n) sum += x[n] + __uint_as_float(y[n]);
    }
    if (sum == 12345) out[threadIdx.x] = sum;
    if (threadIdx.x % 128 == 0) cycles[multiplies ? 1 + warpgroup % 2 : 0] = end - begin;
}

static long long* g_cycles;

template <int N, bool REGISTERS, int KIND, bool FIRST> static void tell(int groups) {
    static const char* const kinds[] = {"LOP3 1", "LOP3 2", "LOP3 3", "FADD 1", "FADD 2", "FFMA 3", "F2FP 2"};
    auto* kernel = loop<N, REGISTERS, KIND, FIRST>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
    double took[2] = {};
    for (int longer = 0; longer < 2; ++longer) {  // 0: products last longer than the others, which are timed
        int products = groups ? longer ? 64 : 1024 : 0, others = longer ? 4096 : 64;
        long long host[3] = {};
        for (int n = 0; n < 3; ++n) kernel<<<1, 128 * (groups + 1), 65536>>>(g_cycles, (float*)g_cycles + 64, groups, products, others);
        CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, g_cycles, sizeof host, cudaMemcpyDeviceToHost));
        long long most = 0;
        for (int n = 1; n <= groups; ++n) most = most > host[1 + (FIRST ? n : n - 1) % 2] ? most : host[1 + (FIRST ? n : n - 1) % 2];
        took[longer] = longer ? groups ? double(most) / products / PRODUCTS / groups : 0 : double(host[0]) / others / BODY;
    }
    printf("{\"n\": %d, \"a\": \"%s\", \"warpgroups\": %d, \"kind\": \"%s\", \"others\": \"%s\", \"cycles\": %.3f, \"cycles_per_product\": %.2f}\n",
           groups ? N : 0, REGISTERS ? "registers" : "shared", groups, kinds[KIND], FIRST ? "first" : "last", took[0], took[1]);
    fflush(stdout);
}

template <int N, int KIND> static void beside() {
    tell<N, false, KIND, true>(2), tell<N, true, KIND, true>(2), tell<N, false, KIND, false>(2), tell<N, true, KIND, false>(2);
    tell<N, false, KIND, true>(1), tell<N, true, KIND, true>(1);
}
template <int KIND> static void all() {
    tell<64, false, KIND, true>(0);
    beside<64, KIND>(), beside<128, KIND>(), beside<192, KIND>(), beside<256, KIND>();
}

int main() {
    CHECK(cudaMalloc(&g_cycles, 1 << 20));
    all<LOP1>(), all<LOP2>(), all<LOP3>(), all<FADD1>(), all<FADD>(), all<FFMA>(), all<F2FP>();
    return 0;
}
