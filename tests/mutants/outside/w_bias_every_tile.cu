// y = relu(x * w + bias): fp16 storage, fp32 sums, a thread makes 2 x 2 outputs.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <int BT>
__global__ void linear_bias_relu(const __half* __restrict__ x, const __half* __restrict__ w, const float* __restrict__ bias,
                                 __half* __restrict__ y, int M, int N, int K) {
    __shared__ __half xs[BT * 2][BT];
    __shared__ __half ws[BT][BT * 2];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int m0 = blockIdx.y * BT * 2, n0 = blockIdx.x * BT * 2;
    float acc[2][2] = {};
    for (int k0 = 0; k0 < K; k0 += BT) {
        for (int i = 0; i < 2; ++i) {
            int m = m0 + ty + i * BT, n = n0 + tx + i * BT;
            xs[ty + i * BT][tx] = (m < M && k0 + tx < K) ? x[m * K + k0 + tx] : __half(0.f);
            ws[ty][tx + i * BT] = (n < N && k0 + ty < K) ? w[(k0 + ty) * N + n] : __half(0.f);
        }
        __syncthreads();
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j)
                if (n0 + tx + j * BT < N) acc[i][j] += bias[n0 + tx + j * BT];
        for (int k = 0; k < BT; ++k)
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j)
                    acc[i][j] += __half2float(xs[ty + i * BT][k]) * __half2float(ws[k][tx + j * BT]);
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            int m = m0 + ty + i * BT, n = n0 + tx + j * BT;
            if (m < M && n < N) {
                float v = acc[i][j];
                y[m * N + n] = __float2half(v > 0.f ? v : 0.f);
            }
        }
}

void forward(const __half* x, const __half* w, const float* bias, __half* y, int M, int N, int K) {
    const int BT = 16;
    dim3 t(BT, BT);
    dim3 b((N + 2 * BT - 1) / (2 * BT), (M + 2 * BT - 1) / (2 * BT));
    linear_bias_relu<BT><<<b, t>>>(x, w, bias, y, M, N, K);
}
