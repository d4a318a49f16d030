// gemmsmith learn: split_k
//
// The third dimension of the grid divides K: each of the SPLITS blocks of an output tile adds up
// every SPLITS-th tile, and adds its part to C atomically. C holds zeros before the launch.

#define T 16
#define SPLITS 16

__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[T][T], Bs[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0.0f;
    for (int tile = blockIdx.z * T; tile < K; tile += T * SPLITS) {
        As[y][x] = row < M && tile + x < K ? A[row * K + tile + x] : 0.0f;
        Bs[y][x] = tile + y < K && col < N ? B[(tile + y) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < T; ++k) sum += As[y][k] * Bs[k][x];
        __syncthreads();
    }
    if (row < M && col < N) atomicAdd(&C[row * N + col], sum);
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 block(T, T), grid((N + T - 1) / T, (M + T - 1) / T, SPLITS);
    sgemm<<<grid, block>>>(A, B, C, M, N, K);
}
