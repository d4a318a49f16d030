// gemmsmith learn: stage
//
// A block of 16 x 16 threads computes 16 x 16 elements of C. Every thread reads its row of A and
// its column of B from global memory, although the 15 threads beside it read the same row, and the
// 15 below it the same column.

#define T 16

__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        if (row < M && col < N) sum += A[row * K + k] * B[k * N + col];
    if (row < M && col < N) C[row * N + col] = sum;
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 block(T, T), grid((N + T - 1) / T, (M + T - 1) / T);
    sgemm<<<grid, block>>>(A, B, C, M, N, K);
}
