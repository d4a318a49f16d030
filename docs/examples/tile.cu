#define T 16
__global__ void sgemm(int M, int N, int K, const float* A, const float* B, float* C) {
    __shared__ float a[T][T], b[T][T];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += T) {
        a[y][x] = row < M && k + x < K ? A[row * K + k + x] : 0.0f;
        b[y][x] = k + y < K && col < N ? B[(k + y) * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < T; ++i) sum += a[y][i] * b[i][x];
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
