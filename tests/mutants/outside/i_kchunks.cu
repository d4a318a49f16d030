// A long K is worked off in pieces: every launch adds A[:, k0:k0+kc] * B[k0:k0+kc, :] to C.
#include <cuda_runtime.h>
#include <algorithm>
#define T 16

__global__ void gemm_accumulate(const float* A, const float* B, float* C, int M, int N, int kc, int lda, int ldb, int ldc,
                                bool first) {
    __shared__ float As[T][T];
    __shared__ float Bs[T][T];
    const int r = blockIdx.y * T + threadIdx.y, c = blockIdx.x * T + threadIdx.x;
    float sum = first ? 0.f : (r < M && c < N ? C[r * ldc + c] : 0.f);
    for (int k0 = 0; k0 < kc; k0 += T) {
        As[threadIdx.y][threadIdx.x] = r < M && k0 + threadIdx.x < kc ? A[r * lda + k0 + threadIdx.x] : 0.f;
        Bs[threadIdx.y][threadIdx.x] = c < N && k0 + threadIdx.y < kc ? B[(k0 + threadIdx.y) * ldb + c] : 0.f;
        __syncthreads();
        for (int k = 0; k < T; ++k) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    if (r < M && c < N) C[r * ldc + c] = sum;
}

void gemm_long_k(const float* A, const float* B, float* C, int M, int N, int K) {
    const int piece = 48;
    dim3 block(T, T), grid((N + T - 1) / T, (M + T - 1) / T);
    int k = 0;
    while (k < K) {
        int kc = std::min(piece, K - k);
        gemm_accumulate<<<grid, block>>>(A + k, B + (size_t)k * N, C, M, N, kc, K, N, N, k == 0);
        k += kc;
    }
}
