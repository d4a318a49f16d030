// gemmsmith learn: epilogue
//
// C = alpha * A * B + beta * C. A warp holds one row of the tile, so its stores are side by side. C
// is read only if beta is not 0.

#define T 32

__global__ void sgemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float As[T][T + 1], Bs[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    float sums[4] = {};  // of the rows y, y + 8, y + 16 and y + 24, in column x of the tile
    for (int tile = 0; tile < K; tile += T) {
        for (int i = y; i < T; i += 8) {
            int row = blockIdx.y * T + i, col = blockIdx.x * T + x;
            As[i][x] = row < M && tile + x < K ? A[row * K + tile + x] : 0.0f;
            Bs[i][x] = tile + i < K && col < N ? B[(tile + i) * N + col] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < T; ++k)
            for (int i = 0; i < 4; ++i) sums[i] += As[y + 8 * i][k] * Bs[k][x];
        __syncthreads();
    }
    int col = blockIdx.x * T + x;
    for (int i = 0; i < 4; ++i) {
        int row = blockIdx.y * T + y + 8 * i;
        if (row >= M || col >= N) continue;
        float* c = C + row * N + col;
        *c = beta == 0.0f ? alpha * sums[i] : alpha * sums[i] + beta * *c;
    }
}

void launch(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    dim3 block(T, 8), grid((N + T - 1) / T, (M + T - 1) / T);
    sgemm<<<grid, block>>>(M, N, K, alpha, A, B, beta, C);
}
