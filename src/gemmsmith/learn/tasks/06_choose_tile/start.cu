// gemmsmith learn: choose_tile
//
// A block computes BM x BN elements of C and goes through K in steps of BK. A thread computes TM x
// TN of them. The code below works for every choice; you only choose the five numbers. The block
// has (BM / TM) * (BN / TN) threads, which must be a multiple of 32 and at most 1024; TM must
// divide BM, and TN must divide BN.

#define BM 32
#define BN 32
#define BK 8
#define TM 2
#define TN 2

#define THREADS ((BM / TM) * (BN / TN))
static_assert(BM % TM == 0 && BN % TN == 0 && THREADS % 32 == 0 && THREADS <= 1024, "no legal choice");

__global__ void __launch_bounds__(THREADS) sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[BK][BM + 4], Bs[BK][BN];
    int tid = threadIdx.x, x = tid % (BN / TN), y = tid / (BN / TN);
    float sums[TM][TN] = {};
    for (int tile = 0; tile < K; tile += BK) {
        for (int i = tid; i < BM * BK; i += THREADS) {
            int row = blockIdx.y * BM + i / BK, k = tile + i % BK;
            As[i % BK][i / BK] = row < M && k < K ? A[row * K + k] : 0.0f;
        }
        for (int i = tid; i < BK * BN; i += THREADS) {
            int k = tile + i / BN, col = blockIdx.x * BN + i % BN;
            Bs[i / BN][i % BN] = k < K && col < N ? B[k * N + col] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k)
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sums[i][j] += As[k][y * TM + i] * Bs[k][x + j * (BN / TN)];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            int row = blockIdx.y * BM + y * TM + i, col = blockIdx.x * BN + x + j * (BN / TN);
            if (row < M && col < N) C[row * N + col] = sums[i][j];
        }
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 grid((N + BN - 1) / BN, (M + BM - 1) / BM);
    sgemm<<<grid, THREADS>>>(A, B, C, M, N, K);
}
