// What waiting for copies costs a block beside the copies' own time: a loop that copies, commits, waits and meets at a barrier.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a copy_waits.cu -o copy_waits && ./copy_waits
//
// One block of "warps" warps. In each step every thread copies 16 bytes "copies" times from L2 into the next of "stages" stages, commits a
// group, waits until at most stages - 2 groups are under way ("waits") and meets the others at a barrier ("barriers"); then it reads 16 bytes
// of the stage ("reads") and spins "spin" cycles on FFMA. "cycles": of a step. "how": "cg" past L1, "ca" through it, "store": the
// bytes are loaded into registers a step ahead and stored, as a kernel without copies does.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

constexpr int STEPS = 256;
enum How { CG, CA, STORE };

template <int HOW, int COPIES, int STAGES, int WAITS, int BARRIERS, int READS>
__global__ void steps(const char* data, unsigned bytes, float* out, int spin, long long* cycles) {
    extern __shared__ __align__(16) char stages[];
    int size = COPIES * blockDim.x * 16;
    unsigned base = unsigned(__cvta_generic_to_shared(stages)) + threadIdx.x * 16;
    float sum = threadIdx.x;
    uint4 held[COPIES ? COPIES : 1];
    auto from = [&](int s, int n) { return data + (unsigned(s * COPIES + n) * blockDim.x * 16 + threadIdx.x * 16) % bytes; };
    auto fetch = [&](int s) {
#pragma unroll
        for (int n = 0; n < COPIES; ++n) {
            unsigned to = base + s % STAGES * size + n * blockDim.x * 16;
            if (HOW == CG) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from(s, n)) : "memory");
            if (HOW == CA) asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from(s, n)) : "memory");
            if (HOW == STORE) asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(held[n].x), "=r"(held[n].y), "=r"(held[n].z), "=r"(held[n].w) : "l"(from(s, n)));
        }
        if (HOW != STORE && WAITS) asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int s = 0; s < STAGES - 1; ++s) fetch(s);
    long long begin = 0;
    for (int s = 0; s < STEPS; ++s) {
        if (s == 16) begin = now();
        if (HOW != STORE) {
            if (WAITS) asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            if (BARRIERS) __syncthreads();
            fetch(s + STAGES - 1);
        } else {
#pragma unroll
            for (int n = 0; n < COPIES; ++n)
                asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(base + s % STAGES * size + n * blockDim.x * 16), "r"(held[n].x), "r"(held[n].y), "r"(held[n].z), "r"(held[n].w) : "memory");
            if (BARRIERS) __syncthreads();
            fetch(s + 1);
        }
        float a = 1, b = 0;
        if (READS) asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(a), "=f"(b) : "r"(base + s % STAGES * size));
        for (int n = 0; n < spin / 4; ++n) sum = fmaf(sum, a, b);
    }
    if (threadIdx.x == 0) cycles[0] = now() - begin;
    if (sum == 12345) out[0] = sum;
}

static char* g_data;
static float* g_out;
static long long* g_cycles;

template <int HOW, int COPIES, int STAGES, int WAITS, int BARRIERS, int READS> static void tell(int warps, int spin) {
    auto kernel = steps<HOW, COPIES, STAGES, WAITS, BARRIERS, READS>;
    int smem = COPIES * warps * 512 * STAGES + 16384;
    if (smem > 220 << 10) return;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    double best = 1e9;
    for (int again = 0; again < 3; ++again) {
        kernel<<<1, 32 * warps, smem>>>(g_data, 4 << 20, g_out, spin, g_cycles);
        long long taken;
        CHECK(cudaMemcpy(&taken, g_cycles, 8, cudaMemcpyDeviceToHost));
        best = double(taken) / (STEPS - 16) < best ? double(taken) / (STEPS - 16) : best;
    }
    const char* names[] = {"cg", "ca", "store"};
    printf("{\"how\": \"%s\", \"copies\": %d, \"stages\": %d, \"waits\": %d, \"barriers\": %d, \"reads\": %d, \"warps\": %d, \"spin\": %d, \"cycles\": %.1f}\n", names[HOW], COPIES, STAGES, WAITS, BARRIERS,
           READS, warps, spin, best);
    fflush(stdout);
}

template <int HOW, int COPIES, int STAGES> static void some() {
    for (int warps : {4, 8})
        for (int spin : {0, 400, 1600}) {
            tell<HOW, COPIES, STAGES, 1, 1, 1>(warps, spin), tell<HOW, COPIES, STAGES, 1, 1, 0>(warps, spin);
            if (HOW != STORE) tell<HOW, COPIES, STAGES, 0, 1, 1>(warps, spin), tell<HOW, COPIES, STAGES, 1, 0, 0>(warps, spin);
        }
}

int main() {
    CHECK(cudaMalloc(&g_data, 8 << 20)), CHECK(cudaMemset(g_data, 0, 8 << 20)), CHECK(cudaMalloc(&g_out, 64)), CHECK(cudaMalloc(&g_cycles, 64));
    some<CG, 0, 3>(), some<CG, 1, 2>(), some<CG, 4, 2>(), some<CG, 1, 3>(), some<CG, 4, 3>(), some<CG, 4, 4>(), some<CG, 8, 3>(), some<CA, 4, 3>(), some<STORE, 1, 2>(), some<STORE, 4, 2>();
    return 0;
}
