// How long a load from L2 takes while all SMs load at a given rate.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a l2_under_load.cu -o l2_under_load && ./l2_under_load
//
// One block an SM. Seven warps load "lines" whole lines each (past L1), wait for them, and pause for "pause" cycles; the eighth loads one line at a time and
// measures how long it takes. "from": "own", each SM has data of its own in L2; "same", all have the same; "dram", seven warps load from DRAM and the eighth from L2.
// "bytes_per_cycle": of an SM; "cycles": of a load of the eighth warp, the mean over SMs; "loads": of the other warps, the mean of a burst.
// Every line of the output is a JSON object.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }
__device__ __forceinline__ unsigned load(const unsigned char* p) {
    unsigned v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

constexpr int TIME = 60000, OWN = 64 << 10;  // cycles of a run; bytes of an SM

template <int LINES> __global__ void __launch_bounds__(256) loads(const unsigned char* data, size_t stride, size_t span, const unsigned char* probe, int pause, long long* told, unsigned* out) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned char* mine = data + blockIdx.x * stride;
    unsigned sum = 0;
    long long begin = now(), count = 0, waited = 0;
    if (warp == 7) {
        const unsigned char* at = probe + blockIdx.x * 16384 + lane * 4;
        while (now() - begin < TIME) {
            long long t = now();
            unsigned v = load(at + count % 64 * 256);
            asm volatile("" ::"r"(v) : "memory");
            sum += v;
            if (sum == 12345) break;
            waited += now() - t, ++count;
        }
    } else {
        size_t place = (size_t(warp) * 8191 * 128) & (span - 1);
        while (now() - begin < TIME) {
            long long t = now();
            unsigned v[LINES];
#pragma unroll
            for (int n = 0; n < LINES; ++n) v[n] = load(mine + ((place + n * 128) & (span - 1)) + lane * 4);
#pragma unroll
            for (int n = 0; n < LINES; ++n) sum += v[n];
            if (sum == 12345) break;
            long long end = now();
            waited += end - t, ++count;
            place = (place + LINES * 128 * 7) & (span - 1);
            while (now() - end < pause) {}
        }
    }
    long long took = now() - begin;
    if (sum == 12345) *out = sum;
    if (lane == 0) told[(blockIdx.x * 8 + warp) * 3] = count, told[(blockIdx.x * 8 + warp) * 3 + 1] = waited, told[(blockIdx.x * 8 + warp) * 3 + 2] = took;
}

template <int LINES> static void tell(const unsigned char* data, const unsigned char* other, long long* told, unsigned* out) {
    static long long host[132 * 8 * 3];
    const char* names[] = {"own", "same", "dram"};
    for (int from = 0; from < 3; ++from)
        for (int pause : {100000, 4000, 2000, 1000, 500, 250, 100, 0}) {
            size_t stride = from == 0 ? OWN : from == 1 ? 0 : size_t(16) << 20, span = from == 2 ? size_t(16) << 20 : from == 1 ? 4 << 20 : OWN;  // powers of two: a division takes 200 cycles
            for (int turn = 0; turn < 2; ++turn) {
                loads<LINES><<<132, 256>>>(data, stride, span, other, pause, told, out);
                CHECK(cudaDeviceSynchronize());
            }
            CHECK(cudaMemcpy(host, told, sizeof host, cudaMemcpyDeviceToHost));
            double rate = 0, probes = 0, probing = 0, bursts = 0, bursting = 0;
            for (int n = 0; n < 132 * 8; ++n) {
                if (n % 8 == 7) probes += host[n * 3], probing += host[n * 3 + 1];
                else bursts += host[n * 3], bursting += host[n * 3 + 1], rate += double(host[n * 3]) * LINES * 128 / host[n * 3 + 2] / 132;
            }
            printf("{\"from\": \"%s\", \"lines\": %d, \"pause\": %d, \"bytes_per_cycle\": %.1f, \"cycles\": %.0f, \"loads\": %.0f}\n", names[from], LINES, pause, rate, probing / probes,
                   bursting / bursts);
            fflush(stdout);
        }
}

int main() {
    unsigned char *data, *other;
    unsigned* out;
    long long* told;
    size_t bytes = size_t(132) * (16 << 20);
    CHECK(cudaMalloc(&data, bytes)), CHECK(cudaMemset(data, 0, bytes)), CHECK(cudaMalloc(&other, 132 * 16384 + 65536)), CHECK(cudaMemset(other, 0, 132 * 16384));
    CHECK(cudaMalloc(&told, 132 * 8 * 24)), CHECK(cudaMalloc(&out, 4));
    tell<1>(data, other, told, out), tell<4>(data, other, told, out), tell<16>(data, other, told, out);
}
