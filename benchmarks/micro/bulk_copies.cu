// How long cp.async.bulk copies of a given size take, issued by one thread or by several.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a bulk_copies.cu -o bulk_copies && ./bulk_copies
//
// On "busy" SMs one block of "warps" warps each. "lanes" lanes of every warp issue copies of "size" bytes from L2, one after the other, until the block has issued "copies"; all
// threads then wait for the last byte. "apart": bytes between the sources of copies, 0 where they follow one another; "same": all SMs read the same data. "cycles":
// of the block for one copy, from "copies" and twice as many (so that latency is not counted); "latency": what is left for none; "issue": cycles of a warp for one
// of its copies until it goes on. Every line of the output is a JSON object.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

constexpr int SPACE = 64 << 10;  // bytes of shared memory that copies are written to, again and again

__global__ void __launch_bounds__(256) copies(const unsigned char* data, int size, int lanes, int count, int apart, int same, long long* cycles) {
    extern __shared__ __align__(1024) unsigned char space[];
    __shared__ __align__(8) uint64_t full;
    unsigned bar = __cvta_generic_to_shared(&full), to = __cvta_generic_to_shared(space);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, issuers = lanes * warps;
    int stride = apart ? apart : size, place = (same ? 0 : blockIdx.x) * (apart ? 16 : SPACE);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar));
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(count * size) : "memory");
    }
    __syncthreads();
    long long begin = now();
    if (lane < lanes)
#pragma unroll 1
        for (int n = warp * lanes + lane; n < count; n += issuers) {
            const unsigned char* from = data + place + size_t(n) * stride % (apart ? size_t(4) << 20 : size_t(SPACE));
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to + n * size % SPACE), "l"(from), "r"(size), "r"(bar) : "memory");
        }
    __syncwarp();
    long long issued = now();
    asm volatile("{\n.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], 0;\n@!p bra AGAIN;\n}" ::"r"(bar) : "memory");
    __syncthreads();
    if (threadIdx.x == 0) cycles[2 * blockIdx.x] = now() - begin, cycles[2 * blockIdx.x + 1] = issued - begin;
}

int main() {
    unsigned char* data;
    long long *cycles, host[264];
    size_t bytes = size_t(16) << 20;
    CHECK(cudaMalloc(&data, bytes)), CHECK(cudaMemset(data, 0, bytes)), CHECK(cudaMalloc(&cycles, sizeof host));
    CHECK(cudaFuncSetAttribute(copies, cudaFuncAttributeMaxDynamicSharedMemorySize, SPACE));
    for (int busy : {1, 132})
        for (int same : {0, 1})
            for (int apart : {0, 4096})
                for (int warps : {1, 4, 8})
                    for (int lanes : {1, 32})
                        for (int size : {16, 32, 64, 128, 256, 512, 1024, 2048, 4096}) {
                            if ((busy == 1 && same) || (apart && size > 256)) continue;
                            int count = size * 512 > 262144 ? 262144 / size : 512;  // an mbarrier counts up to 1 MB
                            double found[2], issue = 0;
                            for (int twice = 0; twice < 2; ++twice) {
                                double least = 1e30;
                                for (int turn = 0; turn < 3; ++turn) {
                                    copies<<<busy, 32 * warps, SPACE>>>(data, size, lanes, count << twice, apart, same, cycles);
                                    CHECK(cudaDeviceSynchronize()), CHECK(cudaMemcpy(host, cycles, 16 * busy, cudaMemcpyDeviceToHost));
                                    double sum = 0;
                                    for (int n = 0; n < busy; ++n) sum += double(host[2 * n]) / busy;
                                    least = sum < least ? sum : least;
                                    issue = double(host[1]) * warps / (count << twice);
                                }
                                found[twice] = least;
                            }
                            double each = (found[1] - found[0]) / count;
                            printf("{\"busy\": %d, \"same\": %d, \"apart\": %d, \"warps\": %d, \"lanes\": %d, \"size\": %d, \"copies\": %d, \"cycles\": %.2f, \"latency\": %.0f, \"issue\": %.1f, \"bytes_per_cycle\": %.1f}\n", busy,
                                   same, apart, warps, lanes, size, count, each, found[0] - each * count, issue, size / each);
                            fflush(stdout);
                        }
    return 0;
}
