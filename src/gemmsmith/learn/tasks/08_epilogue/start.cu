// gemmsmith learn: epilogue
//
// C = alpha * A * B + beta * C. The sums are right. What happens after the loop, the epilogue, is
// not: it has a wrong formula, it reads C where it must not, and its stores waste memory traffic.

#define T 32

__global__ void sgemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float As[T][T + 1], Bs[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    float sums[4] = {};  // of the columns y, y + 8, y + 16 and y + 24, in row x of the tile
    for (int tile = 0; tile < K; tile += T) {
        for (int i = y; i < T; i += 8) {
            int row = blockIdx.y * T + i, col = blockIdx.x * T + x;
            As[i][x] = row < M && tile + x < K ? A[row * K + tile + x] : 0.0f;
            Bs[i][x] = tile + i < K && col < N ? B[(tile + i) * N + col] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < T; ++k)
            for (int i = 0; i < 4; ++i) sums[i] += As[x][k] * Bs[k][y + 8 * i];
        __syncthreads();
    }
    int row = blockIdx.y * T + x;
    for (int i = 0; i < 4; ++i) {
        int col = blockIdx.x * T + y + 8 * i;
        if (row < M && col < N) C[row * N + col] = alpha * (sums[i] + beta * C[row * N + col]);
    }
}

void launch(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    dim3 block(T, 8), grid((N + T - 1) / T, (M + T - 1) / T);
    sgemm<<<grid, block>>>(M, N, K, alpha, A, B, beta, C);
}
