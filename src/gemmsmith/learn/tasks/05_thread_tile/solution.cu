// gemmsmith learn: thread_tile
//
// One thread computes 8 elements of a column of C: a number of B serves 8 multiplications, and the
// 8 numbers of A are the same for all threads of a warp.

#define T 32
#define R 8  // outputs of a thread

__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[T][T], Bs[T][T];
    int x = threadIdx.x, y = threadIdx.y * R;
    int col = blockIdx.x * T + x;
    float sums[R] = {};
    for (int tile = 0; tile < K; tile += T) {
        for (int i = 0; i < R; ++i) {
            int row = blockIdx.y * T + y + i;
            As[y + i][x] = row < M && tile + x < K ? A[row * K + tile + x] : 0.0f;
            Bs[y + i][x] = tile + y + i < K && col < N ? B[(tile + y + i) * N + col] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < T; ++k) {
            float b = Bs[k][x];
            for (int i = 0; i < R; ++i) sums[i] += As[y + i][k] * b;
        }
        __syncthreads();
    }
    for (int i = 0; i < R; ++i) {
        int row = blockIdx.y * T + y + i;
        if (row < M && col < N) C[row * N + col] = sums[i];
    }
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 block(T, T / R), grid((N + T - 1) / T, (M + T - 1) / T);
    sgemm<<<grid, block>>>(A, B, C, M, N, K);
}
