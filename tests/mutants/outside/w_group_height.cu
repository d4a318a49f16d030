// A fixed grid of 2 x 3 blocks walks over the tiles, in columns of GROUP tile rows (better use of the L2 cache).
#include <cuda_runtime.h>
constexpr int TILE = 32, KS = 8, GROUP = 4;

__global__ void gemm_grouped(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[KS][TILE];
    __shared__ float b[KS][TILE];
    const int rows = (M + TILE - 1) / TILE, cols = (N + TILE - 1) / TILE;
    const int first = blockIdx.y * gridDim.x + blockIdx.x, step = gridDim.x * gridDim.y;
    const int tid = threadIdx.x, r = tid / 8, c = tid % 8 * 4;   // 256 threads, 1 x 4 outputs each
    for (int id = first; id < rows * cols; id += step) {
        const int per_group = GROUP * cols;
        const int group = id / per_group;
        const int height = rows % GROUP == 0 ? GROUP : rows < GROUP ? rows : rows % GROUP;
        const int tr = group * GROUP + (id % per_group) % height;
        const int tc = (id % per_group) / height;
        const int m0 = tr * TILE, n0 = tc * TILE;
        float acc[4] = {0, 0, 0, 0};
        for (int k0 = 0; k0 < K; k0 += KS) {
            const int am = tid % TILE, ak = tid / TILE;
            a[ak][am] = (m0 + am < M && k0 + ak < K) ? A[(m0 + am) * K + k0 + ak] : 0.f;
            b[ak][am] = (n0 + am < N && k0 + ak < K) ? B[(k0 + ak) * N + n0 + am] : 0.f;
            __syncthreads();
            for (int k = 0; k < KS; ++k)
                for (int j = 0; j < 4; ++j) acc[j] += a[k][r] * b[k][c + j];
            __syncthreads();
        }
        for (int j = 0; j < 4; ++j)
            if (m0 + r < M && n0 + c + j < N) C[(m0 + r) * N + n0 + c + j] = acc[j];
    }
}

void run(const float* A, const float* B, float* C, int M, int N, int K) {
    gemm_grouped<<<dim3(2, 3), 256>>>(A, B, C, M, N, K);
}
