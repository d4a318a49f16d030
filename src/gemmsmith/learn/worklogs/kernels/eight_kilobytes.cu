// 64 threads and 8 KB of shared memory per block, for the question how many such blocks an SM
// holds.
#define T 32

// M, N and K are multiples of 32; a thread computes 16 rows of one column.
__global__ void __launch_bounds__(64) sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[T][T], Bs[T][T];
    int x = threadIdx.x % T, y = threadIdx.x / T;
    float sums[T / 2] = {};
    for (int tile = 0; tile < K; tile += T) {
        for (int row = y; row < T; row += 2) {
            As[row][x] = A[(blockIdx.y * T + row) * K + tile + x];
            Bs[row][x] = B[(tile + row) * N + blockIdx.x * T + x];
        }
        __syncthreads();
        for (int k = 0; k < T; ++k)
            for (int i = 0; i < T / 2; ++i) sums[i] += As[2 * i + y][k] * Bs[k][x];
        __syncthreads();
    }
    for (int i = 0; i < T / 2; ++i) C[(blockIdx.y * T + 2 * i + y) * N + blockIdx.x * T + x] = sums[i];
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    sgemm<<<dim3(N / T, M / T), 64>>>(A, B, C, M, N, K);
}
