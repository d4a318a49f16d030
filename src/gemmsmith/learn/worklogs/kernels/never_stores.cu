// Every tile is loaded and multiplied, and the sum is thrown away: the line that stores C is
// missing. The compiler notices, and removes the whole kernel; it is very fast.
#define T 16

__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[T][T], Bs[T][T];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0.0f;
    for (int tile = 0; tile < K; tile += T) {
        As[y][x] = row < M && tile + x < K ? A[row * K + tile + x] : 0.0f;
        Bs[y][x] = tile + y < K && col < N ? B[(tile + y) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < T; ++k) sum += As[y][k] * Bs[k][x];
        __syncthreads();
    }
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    sgemm<<<dim3((N + T - 1) / T, (M + T - 1) / T), dim3(T, T)>>>(A, B, C, M, N, K);
}
