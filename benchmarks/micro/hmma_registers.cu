// mma.sync beside other instructions, and by which registers it reads: what a sub-core issues meanwhile.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a hmma_registers.cu -o hmma_registers && ./hmma_registers
//
// One block on one SM. A step has 16 products 16x8x16: 4 tiles of A by 4 of B, each to sums of its own. "order": "rows" takes
// all B for one A, so that A may stay in the reuse cache; "mixed" changes both each time. "beside": instructions of "what" after
// each product, on registers of their own. "cycles": of a sub-core for each product.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

constexpr int STEPS = 64;

// WHAT 0: nothing, 1: LOP3 of three registers, 2: FFMA of three, 3: IMAD of three, 4: LDS.128, 5: LOP3 of one register
template <int HALF, int MIXED, int WHAT, int BESIDE> __global__ void __launch_bounds__(512) loop(const unsigned* data, unsigned* out, long long* cycles) {
    __shared__ __align__(16) uint4 words[512];
    unsigned a[4][4], b[4][2], c[16][4], other[4];
    for (int n = 0; n < 16; ++n) a[n / 4][n % 4] = data[threadIdx.x + n];
    for (int n = 0; n < 8; ++n) b[n / 2][n % 2] = data[threadIdx.x + n + 16];
    for (int n = 0; n < 64; ++n) c[n / 4][n % 4] = 0;
    for (int n = 0; n < 4; ++n) other[n] = data[threadIdx.x + n + 24];
    words[threadIdx.x] = {};
    unsigned at = __cvta_generic_to_shared(words) + threadIdx.x * 16;
    __syncthreads();
    long long begin = now();
#pragma unroll 1
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int n = 0; n < 16; ++n) {
            int i = MIXED ? n % 4 : n / 4, j = MIXED ? (n + n / 4) % 4 : n % 4;
            unsigned* d = c[i * 4 + j];
            if (HALF)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                             : "+r"(d[0]), "+r"(d[1]) : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
            else
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
#pragma unroll
            for (int m = 0; m < BESIDE; ++m) {
                unsigned& o = other[m % 4];
                if (WHAT == 1) asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(o) : "r"(a[3][m % 4]), "r"(b[3][m % 2]));
                if (WHAT == 2) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(reinterpret_cast<float&>(o)) : "f"(__uint_as_float(a[3][m % 4])), "f"(__uint_as_float(b[3][m % 2])));
                if (WHAT == 3) asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(o) : "r"(a[3][m % 4]), "r"(b[3][m % 2]));
                if (WHAT == 4) {
                    uint4 v;
                    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at));
                }
                if (WHAT == 5) asm volatile("lop3.b32 %0, %0, 0x1234567, 0x89abcde, 0x96;" : "+r"(o));
            }
        }
    }
    __syncthreads();
    long long end = now();
    unsigned sum = other[0] + other[1] + other[2] + other[3];
    for (int n = 0; n < 64; ++n) sum += c[n / 4][n % 4];
    out[threadIdx.x] = sum;
    if (threadIdx.x == 0) *cycles = end - begin;
}

static unsigned* g_data;
static long long* g_cycles;

template <int HALF, int MIXED, int WHAT, int BESIDE> static void tell(const char* what) {
    for (int warps : {4, 8, 12, 16}) {
        long long host = 0;
        for (int n = 0; n < 3; ++n) loop<HALF, MIXED, WHAT, BESIDE><<<1, 32 * warps>>>(g_data, g_data + 4096, g_cycles);
        CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(&host, g_cycles, 8, cudaMemcpyDeviceToHost));
        printf("{\"sums\": \"%s\", \"order\": \"%s\", \"what\": \"%s\", \"beside\": %d, \"warps\": %d, \"cycles\": %.2f}\n", HALF ? "fp16" : "fp32", MIXED ? "mixed" : "rows", what, BESIDE, warps,
               double(host) / STEPS / 16 / (warps / 4));
    }
}

template <int HALF, int MIXED> static void all() {
    tell<HALF, MIXED, 0, 0>("nothing");
    tell<HALF, MIXED, 1, 1>("lop3"), tell<HALF, MIXED, 1, 2>("lop3"), tell<HALF, MIXED, 1, 4>("lop3");
    tell<HALF, MIXED, 5, 2>("lop3 of one"), tell<HALF, MIXED, 5, 4>("lop3 of one");
    tell<HALF, MIXED, 2, 2>("ffma"), tell<HALF, MIXED, 2, 4>("ffma");
    tell<HALF, MIXED, 3, 2>("imad"), tell<HALF, MIXED, 4, 1>("lds.128");
}

int main() {
    CHECK(cudaMalloc(&g_data, 1 << 20)), CHECK(cudaMemset(g_data, 0, 1 << 20)), CHECK(cudaMalloc(&g_cycles, 8));
    all<0, 0>(), all<0, 1>(), all<1, 0>(), all<1, 1>();
    return 0;
}
