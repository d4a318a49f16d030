// int8 x int8 -> int32 by __dp4a, batched with strides. A is M x K, B is N x K (K-contiguous), K a multiple of 4.
#include <cuda_runtime.h>
#include <cstdint>

template <int BM, int BN, int BKW>
__global__ void igemm_batched(const int8_t* A, const int8_t* B, int32_t* C, int M, int N, int K,
                              long long strideA, long long strideB, long long strideC) {
    __shared__ int sA[BM][BKW + 1];
    __shared__ int sB[BN][BKW + 1];
    A += blockIdx.z * strideA;
    B += blockIdx.z * strideB;
    C += blockIdx.z * strideA;
    const int* Aw = reinterpret_cast<const int*>(A);
    const int* Bw = reinterpret_cast<const int*>(B);
    const int KW = K / 4;
    const int tid = threadIdx.y * blockDim.x + threadIdx.x;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    int acc[2][2] = {{0, 0}, {0, 0}};
    for (int w0 = 0; w0 < KW; w0 += BKW) {
        for (int e = tid; e < BM * BKW; e += 256) {
            int r = e / BKW, w = e % BKW;
            sA[r][w] = (m0 + r < M && w0 + w < KW) ? Aw[(m0 + r) * KW + w0 + w] : 0;
        }
        for (int e = tid; e < BN * BKW; e += 256) {
            int r = e / BKW, w = e % BKW;
            sB[r][w] = (n0 + r < N && w0 + w < KW) ? Bw[(n0 + r) * KW + w0 + w] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int w = 0; w < BKW; ++w)
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j)
                    acc[i][j] = __dp4a(sA[threadIdx.y + 16 * i][w], sB[threadIdx.x + 16 * j][w], acc[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            int r = m0 + threadIdx.y + 16 * i, c = n0 + threadIdx.x + 16 * j;
            if (r < M && c < N) C[(long long)r * N + c] = acc[i][j];
        }
}

void igemm(const int8_t* A, const int8_t* B, int32_t* C, int M, int N, int K, int batch) {
    dim3 block(16, 16);
    dim3 grid((N + 31) / 32, (M + 31) / 32, batch);
    igemm_batched<32, 32, 8><<<grid, block>>>(A, B, C, M, N, K, (long long)M * K, (long long)N * K, (long long)M * N);
}
