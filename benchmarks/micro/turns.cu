// Whether warps of a sub-core take turns: two warps run the same loop; when does each end?
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a turns.cu -o turns && ./turns
//
// A block of 8 warps, two on each sub-core (0 and 4, 1 and 5 ...). "first", "second": cycles from the earlier start to the
// earlier and the later end of a pair. If one had precedence, the first would end in half the time. "alone": one warp a sub-core.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

// KIND 0: mma.sync m16n8k16, eight accumulators; 1: FFMA, eight sums; 2: shared loads.
template <int KIND> __global__ void loop(float* out, long long* times) {
    __shared__ float words[2048];
    for (int n = threadIdx.x; n < 2048; n += blockDim.x) words[n] = 0;
    float c[8][4] = {};
    unsigned a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {threadIdx.x, 5}, at = __cvta_generic_to_shared(words) + threadIdx.x * 4;
    __syncthreads();
    long long begin = now();
    for (int s = 0; s < 64; ++s)
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            if (KIND == 0)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
            if (KIND == 1)
#pragma unroll
                for (int m = 0; m < 4; ++m) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(c[n][m]) : "f"(__uint_as_float(a[0])), "f"(__uint_as_float(b[1])));
            if (KIND == 2) {
                float v;
                asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(v) : "r"(at + n * 512));
                c[n][0] += v;
            }
        }
    float sum = 0;
    for (int n = 0; n < 8; ++n)
        for (int m = 0; m < 4; ++m) sum += c[n][m];
    if (sum == 12345) *out = sum;
    long long end = now();
    if (threadIdx.x % 32 == 0) times[threadIdx.x / 32 * 2] = begin, times[threadIdx.x / 32 * 2 + 1] = end;
}

template <int KIND> static void tell(const char* what, float* out, long long* times) {
    long long host[16];
    auto run = [&](int warps) {
        for (int n = 0; n < 2; ++n) loop<KIND><<<1, 32 * warps>>>(out, times);
        CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, times, sizeof host, cudaMemcpyDeviceToHost));
    };
    run(4);
    long long alone = host[1] - host[0];
    run(8);
    double first = 0, second = 0;
    for (int p = 0; p < 4; ++p) {
        long long begin = std::min(host[2 * p], host[2 * p + 8]), one = host[2 * p + 1], other = host[2 * p + 9];
        first += double(std::min(one, other) - begin) / 4, second += double(std::max(one, other) - begin) / 4;
    }
    printf("{\"what\": \"%s\", \"alone\": %lld, \"first\": %.0f, \"second\": %.0f}\n", what, alone, first, second);
}

int main() {
    float* out;
    long long* times;
    CHECK(cudaMalloc(&out, 4096)), CHECK(cudaMalloc(&times, 4096));
    tell<0>("512 mma.sync m16n8k16", out, times);
    tell<1>("2048 FFMA", out, times);
    tell<2>("512 shared loads", out, times);
    return 0;
}
