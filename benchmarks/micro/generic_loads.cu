// Loads of shared memory by a generic address (LD), by a shared one (LDS), and of local memory (LDL): latency and rate.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a generic_loads.cu -o generic_loads && ./generic_loads
//
// One block on one SM. "latency": a chain of loads, each of which gives the address of the next, by one warp. "rate": 32 independent
// loads in a row by so many warps; "cycles" of the SM for each. "how": "shared", "generic" (the pointer comes from memory, so that the compiler
// cannot know where it points) or "local" (an array whose index is not known).
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

constexpr int STEPS = 64, EACH = 32;
enum How { SHARED, GENERIC, LOCAL };

template <int HOW> __global__ void __launch_bounds__(1024) chain(unsigned* out, long long* cycles) {
    __shared__ unsigned long long words[1024];
    unsigned short_at = unsigned(__cvta_generic_to_shared(words + threadIdx.x));
    unsigned long long at = HOW == GENERIC ? reinterpret_cast<unsigned long long>(words + threadIdx.x) : short_at;
    words[threadIdx.x] = at;
    __syncthreads();
    long long begin = now();
#pragma unroll 8
    for (int s = 0; s < STEPS; ++s) {
        if (HOW == GENERIC) asm volatile("ld.volatile.u64 %0, [%0];" : "+l"(at)::"memory");
        else asm volatile("{.reg .u32 a; cvt.u32.u64 a, %0; ld.volatile.shared.u64 %0, [a];}" : "+l"(at)::"memory");
    }
    long long end = now();
    out[threadIdx.x] = unsigned(at);
    if (threadIdx.x == 0) *cycles = end - begin;
}

template <int HOW> __global__ void __launch_bounds__(1024) many(unsigned* out, int stride, long long* cycles) {
    __shared__ unsigned words[4096];
    unsigned local[EACH + 2], sum = 0;
    for (int n = threadIdx.x; n < 4096; n += blockDim.x) words[n] = n;
    if (HOW == LOCAL)
        for (int n = 0; n < EACH + 2; ++n) local[(n * stride) % (EACH + 2)] = n;
    __syncthreads();
    unsigned long long at = reinterpret_cast<unsigned long long>(words + threadIdx.x);
    unsigned short_at = unsigned(__cvta_generic_to_shared(words + threadIdx.x));
    long long begin = now();
    for (int s = 0; s < STEPS; ++s) {
        unsigned v[EACH];
#pragma unroll
        for (int n = 0; n < EACH; ++n) {
            if (HOW == GENERIC) asm volatile("ld.volatile.u32 %0, [%1];" : "=r"(v[n]) : "l"(at + n * 64));
            if (HOW == SHARED) asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v[n]) : "r"(short_at + n * 64));
            if (HOW == LOCAL) v[n] = *reinterpret_cast<volatile unsigned*>(&local[(n * stride + s) % (EACH + 2)]);
        }
#pragma unroll
        for (int n = 0; n < EACH; ++n) sum += v[n];
    }
    __syncthreads();
    long long end = now();
    out[threadIdx.x] = sum;
    if (threadIdx.x == 0) *cycles = end - begin;
}

int main() {
    unsigned* out;
    long long *cycles, host = 0;
    const char* names[] = {"shared", "generic", "local"};
    CHECK(cudaMalloc(&out, 1 << 14)), CHECK(cudaMalloc(&cycles, 8));
    auto read = [&] { CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(&host, cycles, 8, cudaMemcpyDeviceToHost)); };
    for (int how : {SHARED, GENERIC}) {
        for (int n = 0; n < 3; ++n) how == SHARED ? chain<SHARED><<<1, 32>>>(out, cycles) : chain<GENERIC><<<1, 32>>>(out, cycles);
        read();
        printf("{\"what\": \"latency\", \"how\": \"%s\", \"cycles\": %.1f}\n", names[how], double(host) / STEPS);
    }
    for (int warps : {4, 16, 32})
        for (int how : {SHARED, GENERIC, LOCAL}) {
            for (int n = 0; n < 3; ++n) {
                if (how == SHARED) many<SHARED><<<1, 32 * warps>>>(out, 7, cycles);
                if (how == GENERIC) many<GENERIC><<<1, 32 * warps>>>(out, 7, cycles);
                if (how == LOCAL) many<LOCAL><<<1, 32 * warps>>>(out, 7, cycles);
            }
            read();
            printf("{\"what\": \"rate\", \"how\": \"%s\", \"warps\": %d, \"cycles\": %.2f}\n", names[how], warps, double(host) / STEPS / EACH / warps);
        }
    return 0;
}
