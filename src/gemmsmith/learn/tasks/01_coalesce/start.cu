// gemmsmith learn: coalesce
//
// One thread computes one element of C. The product is right; the way it reads memory is not.
// Threads of a block are numbered with threadIdx.x first, and 32 neighbours in this order are a
// warp: they execute each load together. Here threads that are neighbours in x are in different
// ROWS of A and C, far apart in memory.

__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.x * 16 + threadIdx.x;
    int col = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 block(16, 16), grid((M + 15) / 16, (N + 15) / 16);
    sgemm<<<grid, block>>>(A, B, C, M, N, K);
}
