// float4 loads where rows allow it, scalar loads in the rest; any M, N, K with leading dimensions.
#include <cuda_runtime.h>
#define BLK 64
#define KB 16

__device__ __forceinline__ float4 load4(const float* p, int left, bool vec) {
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (vec && left > 0) return *reinterpret_cast<const float4*>(p);
    if (left > 0) v.x = p[0];
    if (left > 1) v.y = p[1];
    if (left > 2) v.z = p[2];
    if (left > 3) v.w = p[3];
    return v;
}

__global__ void __launch_bounds__(256) sgemm_vec(int M, int N, int K, float alpha, const float* A, int lda, const float* B,
                                                 int ldb, float beta, float* C, int ldc) {
    __shared__ float sA[KB][BLK + 4];
    __shared__ float sB[KB][BLK];
    const int tid = threadIdx.x;
    const int m0 = blockIdx.y * BLK, n0 = blockIdx.x * BLK;
    const bool vecA = (lda & 3) == 0 && ((size_t)A & 15) == 0;
    const bool vecB = (ldb & 3) == 0 && ((size_t)B & 15) == 0;
    const int ar = tid >> 2, ak = (tid & 3) * 4;
    const int bk = tid >> 4, bn = (tid & 15) * 4;
    const int ty = (tid >> 4) * 4, tx = (tid & 15) * 4;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += KB) {
        float4 va = make_float4(0, 0, 0, 0), vb = make_float4(0, 0, 0, 0);
        if (m0 + ar < M) va = load4(A + (size_t)(m0 + ar) * lda + k0 + ak, K - k0 - ak, vecA);
        if (k0 + bk < K) vb = load4(B + (size_t)(k0 + bk) * ldb + n0 + bn, N - n0 - bn, vecB);
        sA[ak + 0][ar] = va.x;
        sA[ak + 1][ar] = va.y;
        sA[ak + 2][ar] = va.z;
        sA[ak + 3][ar] = va.w;
        *reinterpret_cast<float4*>(&sB[bk][bn]) = vb;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < KB; ++k) {
            float4 a = *reinterpret_cast<float4*>(&sA[k][ty]);
            float4 b = *reinterpret_cast<float4*>(&sB[k][tx]);
            acc[0][0] += a.x * b.x; acc[0][1] += a.x * b.y; acc[0][2] += a.x * b.z; acc[0][3] += a.x * b.w;
            acc[1][0] += a.y * b.x; acc[1][1] += a.y * b.y; acc[1][2] += a.y * b.z; acc[1][3] += a.y * b.w;
            acc[2][0] += a.z * b.x; acc[2][1] += a.z * b.y; acc[2][2] += a.z * b.z; acc[2][3] += a.z * b.w;
            acc[3][0] += a.w * b.x; acc[3][1] += a.w * b.y; acc[3][2] += a.w * b.z; acc[3][3] += a.w * b.w;
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int r = m0 + ty + i, c = n0 + tx + j;
            if (r < M && c < N) {
                float* p = C + (size_t)r * ldc + c;
                *p = beta == 0.f ? alpha * acc[i][j] : alpha * acc[i][j] + beta * *p;
            }
        }
}

void sgemm_rowmajor(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
                    int ldc) {
    dim3 grid((N + BLK - 1) / BLK, (M + BLK - 1) / BLK);
    sgemm_vec<<<grid, 256>>>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
