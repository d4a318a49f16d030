// How many memory instructions of a sub-core wait for the SM's memory unit before issue stops.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a memory_queue.cu -o memory_queue && ./memory_queue
//
// Each warp issues "count" accesses one after the other, none of which needs another, and reads the clock before the first
// and after the last has issued: "issued". "done": until all have come back. As long as the queue has room, an access more
// takes a few cycles; then it takes as long as the memory unit needs for one. "cores": sub-cores at work, "warps": on each.
// "words": 32-bit words a lane; "ways": lanes whose words lie in one bank. Every line of the output is a JSON object.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ unsigned now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return unsigned(t); }

enum How { LOAD1, LOAD4, STORE1, STORE4, FAR4, COPY4 };

template <How HOW> __device__ __forceinline__ void access(unsigned at, const char* far, uint4& v, int n) {
    if constexpr (HOW == LOAD1) asm volatile("ld.volatile.shared.b32 %0, [%1];" : "=r"(v.x) : "r"(at) : "memory");
    if constexpr (HOW == LOAD4)
        asm volatile("ld.volatile.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
    if constexpr (HOW == STORE1) asm volatile("st.volatile.shared.b32 [%0], %1;" ::"r"(at), "r"(v.x) : "memory");
    if constexpr (HOW == STORE4) asm volatile("st.volatile.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
    if constexpr (HOW == FAR4)
        asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(far + size_t(n) * 65536) : "memory");
    if constexpr (HOW == COPY4) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(far + size_t(n) * 65536) : "memory");
}

// Warps of one sub-core have numbers of one remainder by four.
template <How HOW, int COUNT> __global__ void __launch_bounds__(512) queue(const char* far, int cores, int stride, unsigned* out, unsigned* sink) {
    __shared__ __align__(1024) char space[32768];
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned at = unsigned(__cvta_generic_to_shared(space)) + lane * stride;
    const char* mine = far + warp * 512 + lane * 16;
    for (unsigned n = threadIdx.x; n < 8192; n += blockDim.x) reinterpret_cast<unsigned*>(space)[n] = n;
    uint4 v[COUNT];
#pragma unroll
    for (int n = 0; n < COUNT; ++n) v[n] = make_uint4(lane + n, lane, lane, lane);
    asm volatile("" : "+r"(at), "+l"(mine), "+r"(v[0].x), "+r"(v[0].y), "+r"(v[0].z), "+r"(v[0].w));  // in registers from here on
    unsigned best = ~0u, best_done = ~0u;
    for (int again = 0; again < 6; ++again) {
        __syncthreads();
        if (warp % 4 < unsigned(cores)) {
            unsigned begin = now();
#pragma unroll
            for (int n = 0; n < COUNT; ++n) access<HOW>(at + n * 512, mine, v[HOW == STORE4 ? 0 : n], n);
            unsigned end = now();
            unsigned sum = 0;
            if constexpr (HOW == COPY4) asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
            for (int n = 0; n < COUNT; ++n) sum += v[n].x + v[n].y + v[n].z + v[n].w;
            asm volatile("" ::"r"(sum) : "memory");
            unsigned done = now();
            if (sum == 0x12345678u) sink[0] = sum;
            best = min(best, end - begin), best_done = min(best_done, done - begin);
        }
    }
    if (lane == 0) out[2 * warp] = best, out[2 * warp + 1] = best_done;
}

static char* g_far;
static unsigned *g_out, *g_sink;

template <How HOW, int COUNT> static void one(const char* what, int words, int ways, int cores, int warps) {
    int stride = ways == 1 ? words * 4 : 128;  // a warp's lanes side by side, or "ways" of them on each bank
    if (ways > 1 && ways < 32) stride = ways * 4;
    CHECK(cudaMemset(g_out, 0, 4096));
    queue<HOW, COUNT><<<1, 128 * warps>>>(g_far, cores, stride, g_out, g_sink);
    CHECK(cudaDeviceSynchronize());
    unsigned host[64];
    CHECK(cudaMemcpy(host, g_out, sizeof host, cudaMemcpyDeviceToHost));
    unsigned issued = 0, done = 0;
    for (int w = 0; w < 4 * warps; ++w)
        if (w % 4 < cores) issued = std::max(issued, host[2 * w]), done = std::max(done, host[2 * w + 1]);
    printf("{\"what\": \"%s\", \"words\": %d, \"ways\": %d, \"cores\": %d, \"warps\": %d, \"count\": %d, \"issued\": %u, \"done\": %u}\n", what, words,
           ways, cores, warps, COUNT, issued, done);
    fflush(stdout);
}

template <How HOW> static void several(const char* what, int words, int ways, int cores, int warps) {
    one<HOW, 1>(what, words, ways, cores, warps), one<HOW, 2>(what, words, ways, cores, warps), one<HOW, 3>(what, words, ways, cores, warps);
    one<HOW, 4>(what, words, ways, cores, warps), one<HOW, 6>(what, words, ways, cores, warps), one<HOW, 8>(what, words, ways, cores, warps);
    one<HOW, 10>(what, words, ways, cores, warps), one<HOW, 12>(what, words, ways, cores, warps), one<HOW, 16>(what, words, ways, cores, warps);
    one<HOW, 20>(what, words, ways, cores, warps), one<HOW, 24>(what, words, ways, cores, warps);
    if constexpr (HOW != LOAD4 && HOW != FAR4) one<HOW, 32>(what, words, ways, cores, warps);
}

int main() {
    CHECK(cudaMalloc(&g_far, 64 << 20)), CHECK(cudaMemset(g_far, 1, 64 << 20));
    CHECK(cudaMalloc(&g_out, 4096)), CHECK(cudaMalloc(&g_sink, 64));
    for (int warps : {1, 2, 4})
        for (int cores : {1, 2, 4}) {
            for (int ways : {1, 8, 32}) several<LOAD1>("shared load", 1, ways, cores, warps);
            several<LOAD4>("shared load", 4, 1, cores, warps);
            several<STORE4>("shared store", 4, 1, cores, warps);
            several<STORE1>("shared store", 1, 32, cores, warps);
            several<FAR4>("load from L2", 4, 1, cores, warps);
            several<COPY4>("copy from L2", 4, 1, cores, warps);
        }
    return 0;
}
