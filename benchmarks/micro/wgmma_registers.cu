// What instructions beside wgmma cost: accumulators, and A where it is in registers, take ports of the register file.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a wgmma_registers.cu -o wgmma_registers && ./wgmma_registers
//
// One SM. One or two warpgroups multiply: groups of 12 products m64n64k16, A in shared memory or in registers. One or two
// more warpgroups run other instructions, a warp or two on each sub-core. "cycles": for one of those instructions, all
// warps of the sub-core together, while products go on; "cycles_per_product": of one product, while those go on. A
// "none": the other instructions alone. "kind" none: products alone.
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
#define SUMS R8(0), R8(8), R8(16), R8(24)
#define NAMES "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define OPERATION "{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
__device__ __forceinline__ void from_shared(float (&d)[32], unsigned long long a, unsigned long long b) {
    asm volatile(OPERATION NAMES ", %32, %33, p, 1, 1, 0, 0;}" : SUMS : "l"(a), "l"(b));
}
__device__ __forceinline__ void from_registers(float (&d)[32], const unsigned (&a)[4], unsigned long long b) {
    asm volatile(OPERATION NAMES ", {%32,%33,%34,%35}, %36, p, 1, 1, 0;}" : SUMS : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

constexpr int BODY = 128, PRODUCTS = 12;
enum Kind { FFMA, FADD, LOP3, LDS };

template <bool REGISTERS, int KIND> __global__ void __launch_bounds__(512, 1) loop(long long* cycles, float* out, int groups, int products, int others) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    for (int n = threadIdx.x; n < 32768 / 16; n += blockDim.x) ((uint4*)tiles)[n] = {};
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    float sum = 0;
    long long begin = now(), end;
    if (threadIdx.x / 128 < groups) {
        float d[32];
        unsigned a[PRODUCTS][4];
        for (int n = 0; n < 32; ++n) d[n] = 0;
        for (int n = 0; n < 4 * PRODUCTS; ++n) a[n / 4][n % 4] = threadIdx.x >> n % 8;
        unsigned long long from = descriptor(tiles + threadIdx.x / 128 * 8192), b = descriptor(tiles + 16384);
#pragma unroll 1
        for (int r = 0; r < products; ++r) {
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int p = 0; p < PRODUCTS; ++p) {
                if (REGISTERS)
                    from_registers(d, a[p], b);
                else
                    from_shared(d, from, b);
            }
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        }
        end = now();
        for (int n = 0; n < 32; ++n) sum += d[n];
        for (int n = 0; n < 4 * PRODUCTS; ++n) sum += a[n / 4][n % 4];
    } else {
        float x[16];
        unsigned y[16], at = __cvta_generic_to_shared(tiles) + threadIdx.x * 16;
        for (int n = 0; n < 16; ++n) x[n] = threadIdx.x * n, y[n] = threadIdx.x + n;
#pragma unroll 1
        for (int r = 0; r < others; ++r)
#pragma unroll
            for (int n = 0; n < BODY; ++n) {
                if (KIND == FFMA) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(x[n % 8]) : "f"(x[8 + n % 4]), "f"(x[12 + n / 8 % 4]));
                if (KIND == FADD) asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(x[n % 8]) : "f"(x[8 + n % 8]));
                if (KIND == LOP3) asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(y[n % 8]) : "r"(y[8 + n % 4]), "r"(y[12 + n / 4 % 4]));
                if (KIND == LDS)
                    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                                 : "=r"(y[n % 4 * 4]), "=r"(y[n % 4 * 4 + 1]), "=r"(y[n % 4 * 4 + 2]), "=r"(y[n % 4 * 4 + 3]) : "r"(at));
            }
        end = now();
        for (int n = 0; n < 16; ++n) sum += x[n] + __uint_as_float(y[n]);
    }
    if (sum == 12345) out[threadIdx.x] = sum;
    if (threadIdx.x % 128 == 0) cycles[threadIdx.x / 128] = end - begin;
}

static long long* g_cycles;

template <bool REGISTERS, int KIND> static void tell(int groups, int warps) {
    static const char* const kinds[] = {"FFMA", "FADD", "LOP3", "LDS.128"};
    auto* kernel = loop<REGISTERS, KIND>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 32768));
    double took[2] = {};
    for (int longer = 0; longer < 2; ++longer) {  // 0: products last longer than the others, which are timed
        int products = groups ? longer ? 64 : 512 : 0, others = warps ? longer ? 2048 : 64 : 0;
        long long host[4] = {};
        for (int n = 0; n < 3; ++n) kernel<<<1, 128 * (groups + warps), 32768>>>(g_cycles, (float*)g_cycles + 64, groups, products, others);
        CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, g_cycles, sizeof host, cudaMemcpyDeviceToHost));
        long long mine = 0;
        for (int n = longer ? 0 : groups; n < (longer ? groups : groups + warps); ++n) mine = mine > host[n] ? mine : host[n];
        took[longer] = longer ? groups ? double(mine) / products / PRODUCTS / groups : 0 : warps ? double(mine) / others / BODY / warps : 0;
    }
    printf("{\"a\": \"%s\", \"warpgroups\": %d, \"kind\": \"%s\", \"others\": %d, \"cycles\": %.3f, \"cycles_per_product\": %.2f}\n",
           !groups ? "none" : REGISTERS ? "registers" : "shared", groups, warps ? kinds[KIND] : "none", warps, took[0], took[1]);
    fflush(stdout);
}

template <int KIND> static void beside() {
    for (int warps = 1; warps <= 2; ++warps) {
        tell<false, KIND>(0, warps);
        for (int groups = 1; groups <= 2; ++groups) tell<false, KIND>(groups, warps), tell<true, KIND>(groups, warps);
    }
}

int main() {
    CHECK(cudaMalloc(&g_cycles, 1 << 20));
    for (int groups = 1; groups <= 2; ++groups) tell<false, FFMA>(groups, 0), tell<true, FFMA>(groups, 0);
    beside<FFMA>(), beside<FADD>(), beside<LOP3>(), beside<LDS>();
    return 0;
}
