// WMMA from shared memory: 64 x 64 outputs a block of four warps, 32 x 32 a warp, 32 of k, rows padded by eight numbers.
#include <mma.h>
using namespace nvcuda;
#define BM 64
#define BN 64
#define BK 32
#define LDA (BK + 8)
#define LDB (BN + 8)

// M and N are multiples of 64, K of 32.
__global__ void __launch_bounds__(128) wmma_shared(const half* A, const half* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) half as[BM * LDA], bs[BK * LDB];
    const int tid = threadIdx.x, warp = tid / 32, wr = warp / 2 * 32, wc = warp % 2 * 32;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[2][2];
    for (int i = 0; i < 4; ++i) wmma::fill_fragment(c[i / 2][i % 2], 0.0f);
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int n = tid + i * 128;
            *reinterpret_cast<uint4*>(as + n / 4 * LDA + n % 4 * 8) = *reinterpret_cast<const uint4*>(A + n / 4 * K + k0 + n % 4 * 8);
            *reinterpret_cast<uint4*>(bs + n / 8 * LDB + n % 8 * 8) = *reinterpret_cast<const uint4*>(B + (k0 + n / 8) * N + n % 8 * 8);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(a[i], as + (wr + i * 16) * LDA + k, LDA);
                wmma::load_matrix_sync(b[i], bs + k * LDB + wc + i * 16, LDB);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) wmma::mma_sync(c[i / 2][i % 2], a[i / 2], b[i % 2], c[i / 2][i % 2]);
        }
        __syncthreads();
    }
    C += (blockIdx.y * BM + wr) * N + blockIdx.x * BN + wc;
#pragma unroll
    for (int i = 0; i < 4; ++i) wmma::store_matrix_sync(C + i / 2 * 16 * N + i % 2 * 16, c[i / 2][i % 2], N, wmma::mem_row_major);
}

void launch(const half* A, const half* B, float* C, int M, int N, int K) {
    wmma_shared<<<dim3(N / BN, M / BM), 128>>>(A, B, C, M, N, K);
}
