#define T 16
__global__ void sgemm(int M, int N, int K, const float* A, const float* B, float* C) {
    __shared__ float As[T][T], Bs[T][T];
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += T) {
        As[threadIdx.y][threadIdx.x] = row < M && k + threadIdx.x < K ? A[row * K + k + threadIdx.x] : 0.0f;
        Bs[threadIdx.y][threadIdx.x] = k + threadIdx.y < K && col < N ? B[(k + threadIdx.y) * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < T; ++i) sum += As[threadIdx.y][i] * Bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
