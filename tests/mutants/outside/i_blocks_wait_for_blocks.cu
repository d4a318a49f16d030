// Stream-K: 10 blocks share all k-tiles evenly; a block that does not end a tile leaves its part; the one that begins a tile adds what others left. 16 x 16 x 16, 256 threads. Any size.
#include <cuda_runtime.h>
#define TB 16
#define WORKERS 10

__global__ void gemm_streamk(const float* A, const float* B, float* C, float* partial, int* flags, int M, int N, int K) {
    __shared__ float as[TB][TB + 1], bs[TB][TB + 1];
    const int tx = threadIdx.x, ty = threadIdx.y, tilesN = (N + TB - 1) / TB, tiles = tilesN * ((M + TB - 1) / TB), depth = max(1, (K + TB - 1) / TB);
    const int total = tiles * depth, each = (total + WORKERS - 1) / WORKERS;
    int at = blockIdx.x * each;
    const int end = min(total, at + each);
    while (at < end) {
        const int tile = at / depth, first = at % depth, last = min(depth, first + end - at);
        const int row = tile / tilesN * TB + ty, col = tile % tilesN * TB + tx;
        float sum = 0.f;
        for (int kt = first; kt < last; ++kt) {
            as[ty][tx] = row < M && kt * TB + tx < K ? A[(size_t)row * K + kt * TB + tx] : 0.f;
            bs[ty][tx] = kt * TB + ty < K && col < N ? B[(size_t)(kt * TB + ty) * N + col] : 0.f;
            __syncthreads();
            for (int k = 0; k < TB; ++k) sum += as[ty][k] * bs[k][tx];
            __syncthreads();
        }
        if (first > 0) {
            partial[blockIdx.x * TB * TB + ty * TB + tx] = sum;
            __threadfence();
            __syncthreads();
            if (tx == 0 && ty == 0) atomicExch(&flags[blockIdx.x], 1);
        } else {
            for (int covered = last, peer = blockIdx.x + 1; covered < depth; ++peer) {
                if (tx == 0 && ty == 0)
                    while (atomicAdd(&flags[peer], 0) == 0) __nanosleep(20);
                __syncthreads();
                __threadfence();
                sum += __ldcg(&partial[peer * TB * TB + ty * TB + tx]);
                covered += min(depth - covered, each);
            }
            if (row < M && col < N) C[(size_t)row * N + col] = sum;
        }
        at += last - first;
    }
}

void sgemm_streamk(const float* A, const float* B, float* C, int M, int N, int K) {
    float* partial;
    int* flags;
    cudaMalloc(&partial, WORKERS * TB * TB * sizeof(float));
    cudaMalloc(&flags, WORKERS * sizeof(int));
    cudaMemset(flags, 0, WORKERS * sizeof(int));
    gemm_streamk<<<WORKERS, dim3(TB, TB)>>>(A, B, C, partial, flags, M, N, K);
    cudaFree(partial);
    cudaFree(flags);
}
