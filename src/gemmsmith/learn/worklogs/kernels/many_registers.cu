// 16 x 8 accumulators per thread, in blocks of 128 threads: far more than 168 registers, and none
// is spilled.
#define BM 128
#define BN 128
#define BK 8
#define TM 16
#define TN 8

// M and N are multiples of 128, K of 8.
__global__ void __launch_bounds__(128) sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ alignas(16) float As[BK][BM], Bs[BK][BN];
    int row = threadIdx.x / (BN / TN) * TM, col = threadIdx.x % (BN / TN) * TN;
    A += blockIdx.y * BM * K, B += blockIdx.x * BN, C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sums[TM][TN] = {};
    for (int tile = 0; tile < K; tile += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += 128) As[i % BK][i / BK] = A[i / BK * K + tile + i % BK];
        for (int i = threadIdx.x; i < BK * BN; i += 128) Bs[i / BN][i % BN] = B[(tile + i / BN) * N + i % BN];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k)
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sums[i][j] += As[k][row + i] * Bs[k][col + j];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) C[(row + i) * N + col + j] = sums[i][j];
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    sgemm<<<dim3(N / BN, M / BM), 128>>>(A, B, C, M, N, K);
}
