// Kernels that synchronise with CUDA's C++ libraries, for the simulator's tests. Each adds up n rows of 256 numbers,
// every thread those of another column, so that all must see what the others brought to shared memory.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
using State = cuda::pipeline_shared_state<cuda::thread_scope_block, 2>;
#pragma nv_diag_suppress static_var_with_dynamic_init

constexpr int COLUMNS = 256;

__device__ int other() { return threadIdx.x ^ 37; }

extern "C" __global__ void barrier_of_all(const float* in, float* out, int n) {
    __shared__ float tile[COLUMNS];
    __shared__ Barrier barrier;
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    float total = 0;
    for (int i = 0; i < n; ++i) {
        tile[threadIdx.x] = in[i * COLUMNS + threadIdx.x];
        barrier.arrive_and_wait();
        total += tile[other()];
        Barrier::arrival_token token = barrier.arrive();
        barrier.wait(std::move(token));
    }
    barrier.arrive_and_drop();
    out[threadIdx.x] = total;
}

extern "C" __global__ void barriers_of_copies(const float* in, float* out, int n) {
    __shared__ alignas(16) float tile[2][COLUMNS];
    __shared__ Barrier barrier[2];
    if (threadIdx.x < 2) init(&barrier[threadIdx.x], blockDim.x);
    __syncthreads();
    auto fetch = [&](int i) {
        cuda::memcpy_async(&tile[i % 2][threadIdx.x], in + i * COLUMNS + threadIdx.x, cuda::aligned_size_t<4>(4), barrier[i % 2]);
    };
    fetch(0);
    float total = 0;
    for (int i = 0; i < n; ++i) {
        if (i + 1 < n) fetch(i + 1);
        barrier[i % 2].arrive_and_wait();
        total += tile[i % 2][other()];
        __syncthreads();
    }
    out[threadIdx.x] = total;
}

extern "C" __global__ void pipeline_of_all(const float* in, float* out, int n) {
    __shared__ alignas(16) float tile[2][COLUMNS];
    __shared__ State state;
    auto block = cg::this_thread_block();
    auto pipeline = cuda::make_pipeline(block, &state);
    float total = 0;
    for (int i = 0, ahead = 0; i < n; ++i) {
        for (; ahead < n && ahead < i + 2; ++ahead) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, tile[ahead % 2], in + ahead * COLUMNS, sizeof(float) * COLUMNS, pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        total += tile[i % 2][other()];
        pipeline.consumer_release();
    }
    out[threadIdx.x] = total;
}

// The last warp copies, the others add up. ACQUIRE and WAIT: whether the two sides wait for one another.
template <bool ACQUIRE, bool WAIT>
__device__ void roles(const float* in, float* out, int n) {
    __shared__ alignas(16) float tile[2][COLUMNS];
    __shared__ State state;
    tile[0][threadIdx.x % COLUMNS] = tile[1][threadIdx.x % COLUMNS] = 0;  // make_pipeline() synchronises the block
    bool producer = threadIdx.x >= COLUMNS;
    auto role = producer ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipeline = cuda::make_pipeline(cg::this_thread_block(), &state, role);
    float total = 0;
    for (int i = 0; i < n; ++i) {
        if (producer) {
            if (ACQUIRE) pipeline.producer_acquire();
            for (int j = threadIdx.x - COLUMNS; j < COLUMNS / 4; j += 32)
                cuda::memcpy_async(tile[i % 2] + 4 * j, in + i * COLUMNS + 4 * j, cuda::aligned_size_t<16>(16), pipeline);
            pipeline.producer_commit();
        } else {
            if (WAIT) pipeline.consumer_wait();
            total += tile[i % 2][other()];
            pipeline.consumer_release();
        }
    }
    if (!producer) out[threadIdx.x] = total;
}

extern "C" __global__ void pipeline_of_roles(const float* in, float* out, int n) { roles<true, true>(in, out, n); }
extern "C" __global__ void without_acquire(const float* in, float* out, int n) { roles<false, true>(in, out, n); }
extern "C" __global__ void without_wait(const float* in, float* out, int n) { roles<true, false>(in, out, n); }

extern "C" __global__ void pipeline_of_threads(const float* in, float* out, int n) {
    __shared__ alignas(16) float tile[2][COLUMNS];
    auto pipeline = cuda::make_pipeline();
    float total = 0;
    for (int i = 0, ahead = 0; i < n; ++i) {
        for (; ahead < n && ahead < i + 2; ++ahead) {
            pipeline.producer_acquire();
            cuda::memcpy_async(&tile[ahead % 2][threadIdx.x], in + ahead * COLUMNS + threadIdx.x, sizeof(float), pipeline);
            pipeline.producer_commit();
        }
        if (i + 1 < n) cuda::pipeline_consumer_wait_prior<1>(pipeline);
        else cuda::pipeline_consumer_wait_prior<0>(pipeline);
        __syncthreads();
        total += tile[i % 2][other()];
        __syncthreads();
        pipeline.consumer_release();
    }
    out[threadIdx.x] = total;
}

extern "C" __global__ void copies_of_a_group(const float* in, float* out, int n) {
    __shared__ alignas(16) float tile[COLUMNS];
    auto block = cg::this_thread_block();
    float total = 0;
    for (int i = 0; i < n; ++i) {
        cg::memcpy_async(block, tile, in + i * COLUMNS, sizeof(float) * COLUMNS);
        cg::wait(block);
        total += tile[other()];
        block.sync();
    }
    auto token = block.barrier_arrive();
    block.barrier_wait(std::move(token));
    out[threadIdx.x] = total;
}
