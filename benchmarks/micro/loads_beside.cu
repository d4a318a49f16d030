// How long a load from L2 or from shared memory takes while other warps of the SM read shared memory and multiply.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a loads_beside.cu -o loads_beside && ./loads_beside
//
// One block an SM, on "busy" SMs. Four warps, one on each sub-core, load once, wait for it, and load again ("probe": "lds", 4 bytes a lane of shared memory; "line", 4
// bytes a lane of one line in L2; "lines", 16 bytes a lane, four whole lines; "sectors", 16 bytes a lane, 16 lines of one sector each; "store", a store to shared
// memory and a load of it). "others" further warps each repeat LOADS loads of 16 bytes a lane from shared memory ("shared": "spread", 32 different places, or "same", one
// for all lanes) and "ffma" FFMA that need them. "waves": wavefronts a cycle that these have of the data stage; "cycles": of one probe, the mean over warps and SMs.
// Every line of the output is a JSON object.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

constexpr int TIME = 40000, LOADS = 4, ROWS = 64, PITCH = 16384;
enum Probe { LDS, LINE, LINES, SECTORS, STORE };
static const char* NAMES[] = {"lds", "line", "lines", "sectors", "store"};

__device__ __forceinline__ float4 shared16(unsigned at) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at) : "memory");
    return v;
}

template <Probe probe> __device__ __forceinline__ unsigned probed(const unsigned char* at, unsigned place, int step) {
    unsigned v = 0;
    uint4 w = {};
    if (probe == LDS) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(place) : "memory");
    if (probe == STORE) asm volatile("st.shared.u32 [%1], %2;\nld.shared.u32 %0, [%1];" : "=r"(v) : "r"(place), "r"(0) : "memory");
    if (probe == LINE) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(at + step % 128 * 128) : "memory");
    if (probe == LINES || probe == SECTORS) {
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(at + (probe == LINES ? step % 32 * 512 : step % 512 * 32)) : "memory");
        v = w.x ^ w.y ^ w.z ^ w.w;
    }
    return v;
}

template <Probe probe, int FFMAS> __global__ void __launch_bounds__(1024) beside(const unsigned char* data, int same, long long* told, float* out) {
    __shared__ __align__(16) unsigned char space[32768];
    for (int n = threadIdx.x; n < 8192; n += blockDim.x) reinterpret_cast<unsigned*>(space)[n] = 0;
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned base = __cvta_generic_to_shared(space), sum = 0;
    long long begin = now(), count = 0, waited = 0;
    float total = 0;
    if (warp < 4) {
        const unsigned char* at = data + size_t(blockIdx.x % 16 * 4 + warp) * 16 * PITCH;
        at += probe == LINE ? lane * 4 : probe == LINES ? lane * 16 : size_t(lane / 2) * PITCH + lane % 2 * 16;
        while (now() - begin < TIME) {
            long long t = now();
            sum += probed<probe>(at, base + 30720 + warp * 128 + lane * 4, int(count));
            if (sum == 12345) break;
            waited += now() - t, ++count;
        }
    } else {
        unsigned at = base + (same ? warp * 16 : warp % 8 * 512 + lane * 16);
        float y[16] = {};
        while (now() - begin < TIME) {
#pragma unroll 1
            for (int turn = 0; turn < 8; ++turn, ++count) {
                float4 v[LOADS];
#pragma unroll
                for (int n = 0; n < LOADS; ++n) v[n] = shared16(at + n * 4096);
#pragma unroll
                for (int n = 0; n < FFMAS; ++n) y[n % 16] = fmaf(y[n % 16], n % 3 ? v[n % LOADS].x : v[n % LOADS].y, v[n % LOADS].z);
#pragma unroll
                for (int n = 0; n < LOADS; ++n) total += v[n].w;
            }
        }
#pragma unroll
        for (int n = 0; n < 16; ++n) total += y[n];
    }
    long long took = now() - begin;
    if (sum == 12345 || total == 12345) *out = total;
    if (lane == 0) told[(blockIdx.x * 32 + warp) * 3] = count, told[(blockIdx.x * 32 + warp) * 3 + 1] = waited, told[(blockIdx.x * 32 + warp) * 3 + 2] = took;
}

static long long *g_told, host[132 * 32 * 3];
static unsigned char* g_data;
static float* g_out;

template <Probe probe, int FFMAS> static void tell(int busy) {
    for (int same : {0, 1})
        for (int others : {0, 4, 8, 12, 20}) {
            if (others == 0 && (same || FFMAS > 16)) continue;
            for (int turn = 0; turn < 2; ++turn) beside<probe, FFMAS><<<busy, 128 + others * 32>>>(g_data, same, g_told, g_out);
            CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, g_told, sizeof host, cudaMemcpyDeviceToHost));
            double probes = 0, waited = 0, waves = 0;
            for (int b = 0; b < busy; ++b)
                for (int w = 0; w < 4 + others; ++w) {
                    long long* one = host + (b * 32 + w) * 3;
                    if (w < 4) probes += one[0], waited += one[1];
                    else waves += double(one[0]) * LOADS * (same ? 1 : 4) / one[2] / busy;
                }
            printf("{\"probe\": \"%s\", \"busy\": %d, \"shared\": \"%s\", \"ffma\": %d, \"others\": %d, \"waves\": %.3f, \"cycles\": %.1f}\n", NAMES[probe], busy, same ? "same" : "spread", FFMAS, others, waves,
                   waited / probes);
            fflush(stdout);
        }
}

template <Probe probe> static void tell_all(int busy) { tell<probe, 16>(busy), tell<probe, 64>(busy), tell<probe, 128>(busy); }

int main() {
    size_t bytes = size_t(ROWS) * 16 * PITCH;
    CHECK(cudaMalloc(&g_data, bytes)), CHECK(cudaMemset(g_data, 0, bytes)), CHECK(cudaMalloc(&g_told, sizeof host)), CHECK(cudaMalloc(&g_out, 4));
    for (int busy : {1, 132}) tell_all<LDS>(busy), tell_all<LINE>(busy), tell_all<LINES>(busy), tell_all<SECTORS>(busy), tell_all<STORE>(busy);
    return 0;
}
