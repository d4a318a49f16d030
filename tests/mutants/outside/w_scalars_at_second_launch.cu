// Split-K into a workspace that a second kernel adds up, with alpha and beta there. 16 x 16 tiles. Any size.
#include <cuda_runtime.h>
#define TS 16
#define SPLIT 3

__global__ void partial_products(const float* A, const float* B, float* W, int M, int N, int K, int chunk) {
    __shared__ float a[TS][TS], b[TS][TS + 1];
    const int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * TS + y, j = blockIdx.x * TS + x;
    const int first = blockIdx.z * chunk, last = min(K, first + chunk);
    float s = 0.f;
    for (int p = first; p < last; p += TS) {
        a[y][x] = i < M && p + x < last ? A[(size_t)i * K + p + x] : 0.f;
        b[y][x] = p + y < last && j < N ? B[(size_t)(p + y) * N + j] : 0.f;
        __syncthreads();
        for (int q = 0; q < TS; ++q) s = fmaf(a[y][q], b[q][x], s);
        __syncthreads();
    }
    if (i < M && j < N) W[((size_t)blockIdx.z * M + i) * N + j] = s;
}

__global__ void sum_up(const float* W, float* C, int count, int parts, float alpha, float beta) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        float s = 0.f;
        for (int p = 0; p < parts; ++p) s += W[(size_t)p * count + i];
        C[i] = beta == 0.f ? alpha * s : alpha * s + beta * C[i];
    }
}

void sgemm(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    const int chunk = ((K + SPLIT - 1) / SPLIT + TS - 1) / TS * TS;
    float* W;
    cudaMalloc((void**)&W, (size_t)SPLIT * M * N * sizeof(float));
    partial_products<<<dim3((N + TS - 1) / TS, (M + TS - 1) / TS, SPLIT), dim3(TS, TS)>>>(A, B, W, M, N, K, chunk);
    sum_up<<<32, 128>>>(W, C, M * N, SPLIT, beta, alpha);
    cudaFree(W);
}
