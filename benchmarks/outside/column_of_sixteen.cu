// A thread computes 16 outputs below one another: 128 x 64 outputs and 512 threads a block, 16 of k in shared memory.
#define BM 128
#define BN 64
#define BK 16
#define TM 16

// M is a multiple of 128, N of 64, K of 16.
__global__ void __launch_bounds__(512) sgemm_1d(int M, int N, int K, const float* A, const float* B, float* C) {
    __shared__ float as[BM * BK], bs[BK * BN];
    const int tid = threadIdx.x, col = tid % BN, group = tid / BN;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sums[TM] = {0.0f};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = tid; i < BM * BK; i += 512) as[i] = A[i / BK * K + i % BK];
        for (int i = tid; i < BK * BN; i += 512) bs[i] = B[i / BN * N + i % BN];
        __syncthreads();
        A += BK;
        B += BK * N;
        for (int k = 0; k < BK; ++k) {
            const float b = bs[k * BN + col];
            for (int i = 0; i < TM; ++i) sums[i] += as[(group * TM + i) * BK + k] * b;
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i) C[(group * TM + i) * N + col] = sums[i];
}

void launch(int M, int N, int K, const float* A, const float* B, float* C) {
    sgemm_1d<<<dim3(N / BN, M / BM), 512>>>(M, N, K, A, B, C);
}
