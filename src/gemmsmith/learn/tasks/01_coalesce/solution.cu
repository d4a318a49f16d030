// gemmsmith learn: coalesce
//
// One thread computes one element of C. Threads that are neighbours in x are neighbours in a row of
// B and C, so a warp's 32 addresses lie side by side.

__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y;
    int col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);
    sgemm<<<grid, block>>>(A, B, C, M, N, K);
}
