// Products of doubles on tensor cores: cycles from one to the next that adds to it, and cycles of a sub-core for each.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a dmma.cu -o dmma && ./dmma
//
// One block on one SM. Every warp adds products to CHAINS sums, one after another. "cycles": of a warp for each product;
// "each": of a sub-core. "dfma": DFMA of the same warps beside every product.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

// SHAPE 0: 8x8x4, 1: 16x8x4, 2: 16x8x8, 3: 16x8x16
template <int SHAPE> __device__ __forceinline__ void product(double (&c)[4], const double (&a)[8], const double (&b)[4]) {
    if (SHAPE == 0)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(c[0]), "+d"(c[1]) : "d"(a[0]), "d"(b[0]));
    if (SHAPE == 1)
        asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3]) : "d"(a[0]), "d"(a[1]), "d"(b[0]));
    if (SHAPE == 2)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3]) : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
    if (SHAPE == 3)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
                     : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                     : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}

constexpr int STEPS = 256;

template <int SHAPE, int CHAINS, int DFMA> __global__ void __launch_bounds__(512) loop(const double* data, double* out, long long* cycles) {
    double c[CHAINS][4] = {}, a[8], b[4], f = data[1];
    for (int n = 0; n < 8; ++n) a[n] = data[threadIdx.x + n];
    for (int n = 0; n < 4; ++n) b[n] = data[threadIdx.x + n + 8];
    __syncthreads();
    long long begin = now();
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int n = 0; n < CHAINS; ++n) {
            product<SHAPE>(c[n], a, b);
#pragma unroll
            for (int m = 0; m < DFMA; ++m) asm volatile("fma.rn.f64 %0, %0, %1, %1;" : "+d"(f) : "d"(a[0]));
        }
    }
    __syncthreads();
    long long end = now();
    double sum = f;
    for (int n = 0; n < CHAINS; ++n) sum += c[n][0] + c[n][1] + c[n][2] + c[n][3];
    out[threadIdx.x] = sum;
    if (threadIdx.x == 0) *cycles = end - begin;
}

static double* g_data;
static long long* g_cycles;

template <int SHAPE, int CHAINS, int DFMA = 0> static void tell(const char* shape) {
    for (int warps : {1, 4, 8, 16}) {
        long long host = 0;
        for (int n = 0; n < 3; ++n) loop<SHAPE, CHAINS, DFMA><<<1, 32 * warps>>>(g_data, g_data + 4096, g_cycles);
        CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(&host, g_cycles, 8, cudaMemcpyDeviceToHost));
        double each = double(host) / STEPS / CHAINS;
        printf("{\"shape\": \"%s\", \"chains\": %d, \"dfma\": %d, \"warps\": %d, \"cycles\": %.2f, \"each\": %.2f}\n", shape, CHAINS, DFMA, warps, each, each / (warps < 4 ? 1 : warps / 4));
    }
}

int main() {
    CHECK(cudaMalloc(&g_data, 1 << 20)), CHECK(cudaMemset(g_data, 0, 1 << 20)), CHECK(cudaMalloc(&g_cycles, 8));
    tell<0, 1>("8x8x4"), tell<0, 2>("8x8x4"), tell<0, 8>("8x8x4"), tell<0, 8, 1>("8x8x4");
    tell<1, 1>("16x8x4"), tell<1, 2>("16x8x4"), tell<1, 8>("16x8x4");
    tell<2, 1>("16x8x8"), tell<2, 2>("16x8x8"), tell<2, 8>("16x8x8");
    tell<3, 1>("16x8x16"), tell<3, 2>("16x8x16"), tell<3, 8>("16x8x16"), tell<3, 8, 1>("16x8x16");
    return 0;
}
