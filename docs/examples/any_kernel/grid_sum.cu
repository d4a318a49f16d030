// The sum of an array in one launch: every block adds up a part, all blocks meet, and the first adds up the parts.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;
constexpr int THREADS = 128;

__device__ float block_sum(float value) {
    __shared__ float sums[THREADS];
    sums[threadIdx.x] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    return sums[0];
}

__global__ void grid_sum(const float* x, float* parts, float* out, int n) {
    cg::grid_group grid = cg::this_grid();
    float mine = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) mine += x[i];
    float sum = block_sum(mine);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
    grid.sync();
    if (blockIdx.x > 0) return;
    float total = block_sum(threadIdx.x < gridDim.x ? parts[threadIdx.x] : 0);
    if (threadIdx.x == 0) *out = total;
}
