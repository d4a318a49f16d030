// gemmsmith learn: stage
//
// The block copies one 16 x 16 tile of A and one of B into shared memory, multiplies them, and goes
// on to the next pair: each element comes from global memory once per block instead of 16 times.

#define T 16

__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[T][T], Bs[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0.0f;
    for (int tile = 0; tile < K; tile += T) {
        As[y][x] = row < M && tile + x < K ? A[row * K + tile + x] : 0.0f;
        Bs[y][x] = tile + y < K && col < N ? B[(tile + y) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < T; ++k) sum += As[y][k] * Bs[k][x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 block(T, T), grid((N + T - 1) / T, (M + T - 1) / T);
    sgemm<<<grid, block>>>(A, B, C, M, N, K);
}
