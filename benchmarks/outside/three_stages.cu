// fp32 with cp.async: 64 x 128 outputs a block, 8 x 4 a thread, three stages of 16 k; A is read as columns of its rows.
#include <cuda_pipeline.h>
#define BM 64
#define BN 128
#define BK 16
#define STAGES 3

// M is a multiple of 64, N of 128, K of 16.
__global__ void __launch_bounds__(256) sgemm_async(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) float as[STAGES][BM][BK + 4], bs[STAGES][BK][BN];
    const int tid = threadIdx.x, ty = tid / 32, tx = tid % 32;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    auto fetch = [&](int tile) {
        if (tile * BK < K) {
            const int stage = tile % STAGES, row = tid / 4, part = tid % 4 * 4;
            __pipeline_memcpy_async(&as[stage][row][part], A + row * K + tile * BK + part, 16);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int r = tid / 32 + i * 8, c = tid % 32 * 4;
                __pipeline_memcpy_async(&bs[stage][r][c], B + (tile * BK + r) * N + c, 16);
            }
        }
        __pipeline_commit();
    };
    for (int t = 0; t < STAGES - 1; ++t) fetch(t);
    float c[8][4] = {};
    for (int t = 0; t * BK < K; ++t) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        fetch(t + STAGES - 1);
        const int stage = t % STAGES;
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float x[8];
            const float4 y = *reinterpret_cast<const float4*>(&bs[stage][k][tx * 4]);
#pragma unroll
            for (int i = 0; i < 8; ++i) x[i] = as[stage][ty * 8 + i][k];
#pragma unroll
            for (int i = 0; i < 8; ++i) c[i][0] += x[i] * y.x, c[i][1] += x[i] * y.y, c[i][2] += x[i] * y.z, c[i][3] += x[i] * y.w;
        }
    }
    C += (blockIdx.y * BM + ty * 8) * N + blockIdx.x * BN + tx * 4;
#pragma unroll
    for (int i = 0; i < 8; ++i) *reinterpret_cast<float4*>(C + i * N) = make_float4(c[i][0], c[i][1], c[i][2], c[i][3]);
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    sgemm_async<<<dim3(N / BN, M / BM), 256>>>(A, B, C, M, N, K);
}
