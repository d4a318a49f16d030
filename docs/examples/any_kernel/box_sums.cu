// Each block loads a box of 32 x 32 numbers by TMA and adds up its rows.
#include <cuda.h>

__global__ void box_sums(const __grid_constant__ CUtensorMap map, float* sums, int columns) {
    __shared__ alignas(128) float box[32][32];
    __shared__ alignas(8) unsigned long long barrier;
    const unsigned there = (unsigned)__cvta_generic_to_shared(box);
    const unsigned arrived = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(arrived) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 4096;" ::"r"(arrived) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                     ::"r"(there), "l"(&map), "r"(arrived), "r"(blockIdx.x * 32), "r"(blockIdx.y * 32) : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(arrived) : "memory");
    float sum = 0.0f;
    for (int i = 0; i < 32; ++i) sum += box[threadIdx.x][i];
    sums[(blockIdx.y * 32 + threadIdx.x) * columns + blockIdx.x] = sum;
}
