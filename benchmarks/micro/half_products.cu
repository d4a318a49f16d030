// How often a sub-core issues products of pairs of 16-bit numbers, with the operands that products of tiles have.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a half_products.cu -o half_products && ./half_products
//
// "what": "tile", 8 x 4 sums of pairs, each half of four registers of A times four registers of B (the outer product of a thread's tile; ptxas makes HFMA2 of
// all); "pairs", the same with whole registers of A, and "chain", x = x a + b with one a and one b (ptxas makes HFMA2 and HFMA2.MMA in turn); "sums" and "scale",
// HADD2 and HMUL2, in turn with HFMA2.MMA; "mixed", the products of "tile", each with an FFMA; "single", FFMA alone. "warps": of the SM. "cycles": of a sub-core
// for one product, or for a product and its FFMA. Every line of the output is a JSON object.
#include <cstdio>
#include <cstdlib>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }
__device__ __forceinline__ __half2 pair(const float* place) { return *reinterpret_cast<const __half2*>(place); }

enum What { CHAIN, TILE, PAIRS, SUMS, SCALE, MIXED, SINGLE };
constexpr int ROUNDS = 64, PRODUCTS = 64;  // of a round

template <What what> __global__ void __launch_bounds__(512) products(const float* given, long long* cycles, float* out) {
    __half2 a[4], b[4], x[32];
    float fa[4], fb[8], y[32];
    for (int n = 0; n < 4; ++n) a[n] = pair(given + n + threadIdx.x), b[n] = pair(given + n + 4 + threadIdx.x);
    for (int n = 0; n < 8; ++n) fb[n] = given[n + 8 + threadIdx.x], fa[n % 4] = given[n + 16 + threadIdx.x];
    for (int n = 0; n < 32; ++n) x[n] = pair(given + n + threadIdx.x), y[n] = given[n + 32 + threadIdx.x];
    __syncthreads();
    long long begin = now();
#pragma unroll 1
    for (int round = 0; round < ROUNDS; ++round) {
#pragma unroll
        for (int turn = 0; turn < PRODUCTS / 32; ++turn)
#pragma unroll
            for (int n = 0; n < 32; ++n) {
                int row = n / 4, column = n % 4;
                __half2 one = row % 2 ? __high2half2(a[row / 2]) : __low2half2(a[row / 2]);
                if (what == CHAIN) x[n] = __hfma2(x[n], a[0], b[0]);
                if (what == TILE || what == MIXED) x[n] = __hfma2(one, b[column], x[n]);
                if (what == PAIRS) x[n] = __hfma2(a[row / 2], b[column], x[n]);
                if (what == SUMS) x[n] = __hadd2(x[n], b[column]);
                if (what == SCALE) x[n] = __hmul2(x[n], b[column]);
                if (what == MIXED || what == SINGLE) y[n] = fmaf(fb[row], fa[column], y[n]);
            }
#pragma unroll
        for (int n = 0; n < 4; ++n) asm volatile("" : "+r"(reinterpret_cast<unsigned&>(a[n])), "+r"(reinterpret_cast<unsigned&>(b[n])));
    }
    long long end = now();
    float sum = 0;
    for (int n = 0; n < 32; ++n) sum += y[n] + __low2float(x[n]) + __high2float(x[n]);
    if (sum == 12345) out[threadIdx.x] = sum;
    if (threadIdx.x % 32 == 0) cycles[threadIdx.x / 32] = end - begin;
}

template <What what> static void tell(const char* name, const float* given, long long* cycles, float* out) {
    for (int warps : {1, 4, 8, 16}) {
        long long host[32], longest = 0;
        for (int turn = 0; turn < 2; ++turn) {
            products<what><<<1, 32 * warps>>>(given, cycles, out);
            CHECK(cudaDeviceSynchronize());
        }
        CHECK(cudaMemcpy(host, cycles, 8 * warps, cudaMemcpyDeviceToHost));
        for (int w = 0; w < warps; ++w) longest = host[w] > longest ? host[w] : longest;
        printf("{\"what\": \"%s\", \"warps\": %d, \"cycles\": %.3f}\n", name, warps, double(longest) / ROUNDS / PRODUCTS / (warps > 4 ? warps / 4 : 1));
        fflush(stdout);
    }
}

int main() {
    float *given, *out;
    long long* cycles;
    CHECK(cudaMalloc(&given, 8192)), CHECK(cudaMemset(given, 0, 8192)), CHECK(cudaMalloc(&out, 4096)), CHECK(cudaMalloc(&cycles, 256));
    tell<CHAIN>("chain", given, cycles, out), tell<TILE>("tile", given, cycles, out), tell<PAIRS>("pairs", given, cycles, out), tell<SUMS>("sums", given, cycles, out);
    tell<SCALE>("scale", given, cycles, out), tell<MIXED>("mixed", given, cycles, out), tell<SINGLE>("single", given, cycles, out);
}
