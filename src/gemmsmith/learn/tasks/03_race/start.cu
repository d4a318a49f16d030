// gemmsmith learn: race
//
// Two buffers, so that one barrier per tile is enough: while slow warps still read one buffer, fast
// warps fill the other. The result may be right for years. It is not right by the rules.

#define T 16

__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[2][T][T], Bs[2][T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0.0f;
    for (int tile = 0, now = 0; tile < K; tile += T, now = 1 - now) {
        __syncthreads();
        As[now][y][x] = row < M && tile + x < K ? A[row * K + tile + x] : 0.0f;
        Bs[now][y][x] = tile + y < K && col < N ? B[(tile + y) * N + col] : 0.0f;
        for (int k = 0; k < T; ++k) sum += As[now][y][k] * Bs[now][k][x];
    }
    if (row < M && col < N) C[row * N + col] = sum;
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 block(T, T), grid((N + T - 1) / T, (M + T - 1) / T);
    sgemm<<<grid, block>>>(A, B, C, M, N, K);
}
