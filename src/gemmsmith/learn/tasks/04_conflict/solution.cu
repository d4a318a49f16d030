// gemmsmith learn: conflict
//
// The tile of A is stored transposed, As[k][row]. Reading it is cheap: all 32 threads of a warp
// read the same word. With rows of 33 floats, neighbouring threads store 33 floats apart: in 32
// different banks.

#define T 32

__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[T][T + 1];  // As[k][row]; one float more per row
    __shared__ float Bs[T][T];  // Bs[k][col]
    int x = threadIdx.x, y = threadIdx.y;
    int col = blockIdx.x * T + x;
    float sums[4] = {};
    for (int tile = 0; tile < K; tile += T) {
        for (int i = y; i < T; i += 8) {
            int row = blockIdx.y * T + i;
            As[x][i] = row < M && tile + x < K ? A[row * K + tile + x] : 0.0f;
            Bs[i][x] = tile + i < K && col < N ? B[(tile + i) * N + col] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < T; ++k)
            for (int i = 0; i < 4; ++i) sums[i] += As[k][y + 8 * i] * Bs[k][x];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        int row = blockIdx.y * T + y + 8 * i;
        if (row < M && col < N) C[row * N + col] = sums[i];
    }
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 block(T, 8), grid((N + T - 1) / T, (M + T - 1) / T);
    sgemm<<<grid, block>>>(A, B, C, M, N, K);
}
