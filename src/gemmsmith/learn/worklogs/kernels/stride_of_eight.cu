// 128 x 128 outputs per block, 8 x 8 per thread. A thread's eight columns of B lie side by side, so
// that the lanes of a warp read float4 at a stride of 8 floats: half of the banks serve all of
// them, twice. COLUMNS_OF_FOUR=1 gives a thread two groups of four columns, 64 apart: the lanes
// read neighbouring float4. PAD widens the rows of A's tile; A_AS_FLOAT4=1 reads that tile as
// float4, which must start on multiples of 16 bytes.
#ifndef A_AS_FLOAT4
#define A_AS_FLOAT4 0
#endif
#ifndef PAD
#define PAD 0
#endif
#ifndef COLUMNS_OF_FOUR
#define COLUMNS_OF_FOUR 0
#endif
#define BM 128
#define BN 128
#define BK 8

// M and N are multiples of 128, K of 8.
__global__ void __launch_bounds__(256) sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ alignas(16) float As[BK][BM + PAD];
    __shared__ alignas(16) float Bs[BK][BN];
    int row = threadIdx.x / 16 * 8, col = threadIdx.x % 16 * (COLUMNS_OF_FOUR ? 4 : 8);
    const int second = COLUMNS_OF_FOUR ? 64 : 4;
    A += blockIdx.y * BM * K, B += blockIdx.x * BN, C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sums[8][8] = {};
    for (int tile = 0; tile < K; tile += BK) {
        int piece = threadIdx.x % 2 * 4, r = threadIdx.x / 2;
        float4 v = *reinterpret_cast<const float4*>(A + r * K + tile + piece);
        As[piece][r] = v.x, As[piece + 1][r] = v.y, As[piece + 2][r] = v.z, As[piece + 3][r] = v.w;
        int k0 = threadIdx.x / 32, c0 = threadIdx.x % 32 * 4;
        *reinterpret_cast<float4*>(&Bs[k0][c0]) = *reinterpret_cast<const float4*>(B + (tile + k0) * N + c0);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[8], b[8];
#pragma unroll
            for (int i = 0; i < 8; i += A_AS_FLOAT4 ? 4 : 1)
                if (A_AS_FLOAT4) *reinterpret_cast<float4*>(a + i) = *reinterpret_cast<const float4*>(&As[k][row + i]);
                else a[i] = As[k][row + i];
            *reinterpret_cast<float4*>(b) = *reinterpret_cast<const float4*>(&Bs[k][col]);
            *reinterpret_cast<float4*>(b + 4) = *reinterpret_cast<const float4*>(&Bs[k][col + second]);
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) sums[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) C[(row + i) * N + col + (j < 4 ? j : second + j - 4)] = sums[i][j];
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    sgemm<<<dim3(N / BN, M / BM), 256>>>(A, B, C, M, N, K);
}
