// How long loads of shared memory take while their own warp multiplies, by how many registers the multiplications read.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a lds_then_ffma.cu -o lds_then_ffma && ./lds_then_ffma
//
// One block on one SM, "warps" on each sub-core. A step is "loads" loads of 16 bytes a lane, then "work" arithmetic instructions that do not need them,
// then the next address from all results. "addresses": different ones in a warp, 32 (four wavefronts), two or one (two wavefronts).
// "kind": "same" FFMA with two operands that stay, "outer" FFMA of an outer product of 8 x 8, "three" FFMA with three other registers each,
// "logic" LOP3, which reads two registers and multiplies nothing. "cycles": of a step. Every line of the output is a JSON object.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

enum Kind { SAME, OUTER, THREE, LOGIC };
static const char* NAMES[] = {"same", "outer", "three", "logic"};
constexpr int STEPS = 512;

template <int LOADS, int WORK, int KIND> __global__ void __launch_bounds__(512) steps(int spread, float seed, float* out, long long* told) {
    __shared__ alignas(16) unsigned words[4096];
    for (int n = threadIdx.x; n < 4096; n += blockDim.x) words[n] = 0;  // every load gives zero, which is added to the address
    __syncthreads();
    unsigned at = __cvta_generic_to_shared(words) + threadIdx.x % 32 / spread * 16;
    float sums[64], x[8], y[8];
    unsigned bits[8];
#pragma unroll
    for (int n = 0; n < 64; ++n) sums[n] = seed * n;
#pragma unroll
    for (int n = 0; n < 8; ++n) x[n] = seed + n, y[n] = seed - n, bits[n] = threadIdx.x + n;
    __syncthreads();
    long long begin = now();
#pragma unroll 1
    for (int s = 0; s < STEPS; ++s) {
        unsigned next = 0;
        uint4 v[LOADS];
#pragma unroll
        for (int n = 0; n < LOADS; ++n)
            asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v[n].x), "=r"(v[n].y), "=r"(v[n].z), "=r"(v[n].w) : "r"(at + n * 512) : "memory");
#pragma unroll
        for (int n = 0; n < WORK; ++n) {
            if (KIND == SAME) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sums[n % 8]) : "f"(x[0]), "f"(y[0]));
            if (KIND == OUTER) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sums[n % 64]) : "f"(x[n / 8 % 8]), "f"(y[n % 8]));
            if (KIND == THREE) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sums[n % 8]) : "f"(x[n % 8]), "f"(y[(n + n / 8) % 8]));
            if (KIND == LOGIC) asm volatile("xor.b32 %0, %0, %1;" : "+r"(bits[n % 8]) : "r"(bits[(n + 3) % 8]));
        }
#pragma unroll
        for (int n = 0; n < LOADS; ++n) next += v[n].x;
        at += next;
    }
    long long end = now();
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 64; ++n) sum += sums[n] * x[n % 8] + y[n % 8];
#pragma unroll
    for (int n = 0; n < 8; ++n) sum += bits[n];
    if (sum == 12345.f) *out = sum + at;
    if (threadIdx.x == 0) *told = end - begin;
}

static float* g_out;
static long long* g_told;

template <int LOADS, int WORK, int KIND> static void tell() {
    for (int addresses : {32, 2, 1})
        for (int warps : {1, 2, 4}) {
            if (addresses == 1 && WORK) continue;
            long long host = 0;
            for (int n = 0; n < 3; ++n) {
                steps<LOADS, WORK, KIND><<<1, 128 * warps>>>(32 / addresses, 1.5f, g_out, g_told);
                CHECK(cudaDeviceSynchronize());
            }
            CHECK(cudaMemcpy(&host, g_told, 8, cudaMemcpyDeviceToHost));
            printf("{\"loads\": %d, \"work\": %d, \"kind\": \"%s\", \"addresses\": %d, \"warps\": %d, \"cycles\": %.2f}\n", LOADS, WORK, NAMES[KIND], addresses, warps, double(host) / STEPS);
        }
    fflush(stdout);
}

template <int LOADS, int KIND> static void works() {
    tell<LOADS, 16, KIND>(), tell<LOADS, 32, KIND>(), tell<LOADS, 64, KIND>(), tell<LOADS, 128, KIND>();
}

template <int LOADS> static void kinds() {
    tell<LOADS, 0, SAME>(), works<LOADS, SAME>(), works<LOADS, OUTER>(), works<LOADS, THREE>(), works<LOADS, LOGIC>();
}

int main() {
    CHECK(cudaMalloc(&g_out, 4));
    CHECK(cudaMalloc(&g_told, 8));
    kinds<1>(), kinds<2>(), kinds<4>(), kinds<6>(), tell<12, 0, SAME>();
}
