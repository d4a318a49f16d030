// Halves on CUDA cores: two outputs in each half2, 64 x 128 outputs a block, 8 x 8 a thread, sums in fp16.
#include <cuda_fp16.h>
#define BM 64
#define BN 128
#define BK 16

// M is a multiple of 64, N of 128, K of 16.
__global__ void __launch_bounds__(128) hgemm_half2(const half* A, const half* B, half* C, int M, int N, int K) {
    __shared__ __align__(16) half as[BK][BM + 8], bs[BK][BN];
    const int tid = threadIdx.x, ty = tid / 16, tx = tid % 16;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    half2 c[8][4];
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 4; ++j) c[i][j] = __floats2half2_rn(0, 0);
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int row = tid / 2, part = tid % 2 * 8;
        const uint4 v = *reinterpret_cast<const uint4*>(A + row * K + k0 + part);
        const half* eight = reinterpret_cast<const half*>(&v);
#pragma unroll
        for (int i = 0; i < 8; ++i) as[part + i][row] = eight[i];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int n = tid + i * 128;
            *reinterpret_cast<uint4*>(&bs[n / 16][n % 16 * 8]) = *reinterpret_cast<const uint4*>(B + (k0 + n / 16) * N + n % 16 * 8);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            const uint4 x = *reinterpret_cast<const uint4*>(&as[k][ty * 8]), y = *reinterpret_cast<const uint4*>(&bs[k][tx * 8]);
            const half* a = reinterpret_cast<const half*>(&x);
            const half2* b = reinterpret_cast<const half2*>(&y);
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) c[i][j] = __hfma2(__half2half2(a[i]), b[j], c[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) *reinterpret_cast<uint4*>(C + (blockIdx.y * BM + ty * 8 + i) * N + blockIdx.x * BN + tx * 8) = *reinterpret_cast<const uint4*>(c[i]);
}

void launch(const half* A, const half* B, half* C, int M, int N, int K) {
    hgemm_half2<<<dim3(N / BN, M / BM), 128>>>(A, B, C, M, N, K);
}
