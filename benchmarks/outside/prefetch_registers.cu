// 128 x 128 outputs a block, 8 x 8 a thread in four groups; two buffers in shared memory, the next k-tile waits in registers.
#define BM 128
#define BN 128
#define BK 8

// M and N are multiples of 128, K of 8.
__global__ void __launch_bounds__(256, 2) sgemm_db(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
    __shared__ __align__(16) float as[2][BK][BM], bs[2][BK][BN];
    const int tid = threadIdx.x, ty = tid / 16, tx = tid % 16;
    const int ar = tid / 2, ac = tid % 2 * 4, br = tid / 32, bc = tid % 32 * 4;
    const float* a = A + (blockIdx.y * BM + ar) * K + ac;
    const float* b = B + br * N + blockIdx.x * BN + bc;
    float4 ra = *reinterpret_cast<const float4*>(a), rb = *reinterpret_cast<const float4*>(b);
    float c[8][8] = {};
    auto store = [&](int buffer) {
        as[buffer][ac][ar] = ra.x, as[buffer][ac + 1][ar] = ra.y, as[buffer][ac + 2][ar] = ra.z, as[buffer][ac + 3][ar] = ra.w;
        *reinterpret_cast<float4*>(&bs[buffer][br][bc]) = rb;
    };
    store(0);
    __syncthreads();
    int buffer = 0;
    for (int k = BK; k <= K; k += BK) {
        if (k < K) {
            ra = *reinterpret_cast<const float4*>(a + k);
            rb = *reinterpret_cast<const float4*>(b + k * N);
        }
#pragma unroll
        for (int i = 0; i < BK; ++i) {
            float x[8], y[8];
            *reinterpret_cast<float4*>(x) = *reinterpret_cast<float4*>(&as[buffer][i][ty * 4]);
            *reinterpret_cast<float4*>(x + 4) = *reinterpret_cast<float4*>(&as[buffer][i][ty * 4 + 64]);
            *reinterpret_cast<float4*>(y) = *reinterpret_cast<float4*>(&bs[buffer][i][tx * 4]);
            *reinterpret_cast<float4*>(y + 4) = *reinterpret_cast<float4*>(&bs[buffer][i][tx * 4 + 64]);
#pragma unroll
            for (int p = 0; p < 8; ++p)
#pragma unroll
                for (int q = 0; q < 8; ++q) c[p][q] += x[p] * y[q];
        }
        if (k < K) {
            buffer ^= 1;
            store(buffer);
            __syncthreads();
        }
    }
#pragma unroll
    for (int p = 0; p < 8; ++p) {
        float* row = C + (blockIdx.y * BM + ty * 4 + p % 4 + p / 4 * 64) * N + blockIdx.x * BN + tx * 4;
        *reinterpret_cast<float4*>(row) = make_float4(c[p][0], c[p][1], c[p][2], c[p][3]);
        *reinterpret_cast<float4*>(row + 64) = make_float4(c[p][4], c[p][5], c[p][6], c[p][7]);
    }
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    sgemm_db<<<dim3(N / BN, M / BM), 256>>>(A, B, C, M, N, K);
}
