"""Kernels in other layouts than row-major NN, and of batches, each with the cure that check must name."""

from __future__ import annotations

from faulty_kernel import Faulty

LINEAR = """
#define TILE 8
__global__ void layer_nt(const float* X, const float* W, float* Y, int M, int N, int K) {
    __shared__ float xs[TILE][TILE], ws[TILE][TILE + 1];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * TILE + ty, first = blockIdx.x * TILE;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        xs[ty][tx] = row < M && k0 + tx < K ? X[row * K + k0 + tx] : 0;
        ws[ty][tx] = first + ty < N && k0 + tx < K ? W[(first + ty) * LEADING + k0 + tx] : 0;  //!
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += xs[ty][k] * ws[tx][k];
        __syncthreads();
    }
    if (row < M && first + tx < N) Y[row * N + first + tx] = sum;
}
void layer(float* X, float* W, float* Y, int M, int N, int K) {
    layer_nt<<<dim3((N + TILE - 1) / TILE, (M + TILE - 1) / TILE), dim3(TILE, TILE)>>>(X, W, Y, M, N, K);
}
"""
BATCHES = """
__global__ void products(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 4 + threadIdx.y, z = blockIdx.z;
    const float *a = A + (size_t)z * M * K, *b = B + (size_t)z * K * N;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * N + col];
    C[(size_t)z * M * N + row * N + col] = sum;
}
void all_products(float* A, float* B, float* C, int batch, int M, int N, int K) {
    dim3 grid((M + 3) / 4, (N + 31) / 32, batch);  //!
    products<<<grid, dim3(32, 4)>>>(A, B, C, M, N, K);
}
"""
WARPS = """
__global__ void dots(const float* A, const float* B, float* C, int M, int N, int K) {
    int lane = threadIdx.x, row = blockIdx.y, col = blockIdx.x * 4 + threadIdx.y;
    if (col >= N) return;
    float sum = 0;
    for (int k = lane; k < K; k += 32) sum += A[row * K + k] * B[k * N + col];
    for (int d = 16; d >= 2; d >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, d);  //!
    if (lane == 0) C[row * N + col] = sum;
}
void all_dots(float* A, float* B, float* C, int M, int N, int K) {
    dots<<<dim3((N + 3) / 4, M), dim3(32, 4)>>>(A, B, C, M, N, K);
}
"""
REGISTERS = """
#define T 4
__global__ void registers(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = (blockIdx.y * 8 + threadIdx.y) * T, col = (blockIdx.x * 8 + threadIdx.x) * T;
    float sums[T][T] = {}, a[T], b[T];
    for (int k = 0; k < K; ++k) {
        for (int i = 0; i < T; ++i) a[i] = row + i < M ? A[(row + i) * K + k] : 0;
        for (int j = 0; j < T; ++j) b[j] = col + j < N ? B[k * N + col + j] : 0;
        for (int i = 0; i < T; ++i)
            for (int j = 0; j < T; ++j) sums[i][j] += a[j] * b[j];  //!
    }
    for (int i = 0; i < T; ++i)
        for (int j = 0; j < T; ++j)
            if (row + i < M && col + j < N) C[(row + i) * N + col + j] = sums[i][j];
}
void run(float* A, float* B, float* C, int M, int N, int K) {
    registers<<<dim3((N + 31) / 32, (M + 31) / 32), dim3(8, 8)>>>(A, B, C, M, N, K);
}
"""

LAYOUTS = [
    Faulty("leading_dimension_of_nt", LINEAR.replace("LEADING", "N"), "wrong-leading-dimension", "W[(first + ty) * K"),
    Faulty("leading_dimension_of_nt_without_its_name",
           LINEAR.replace("LEADING", "N").replace("layer_nt", "layer_product"), "wrong-leading-dimension",
           "W[(first + ty) * K"),
    Faulty("swapped_read_of_nt",
           LINEAR.replace("LEADING", "K").replace("ws[tx][k];", "ws[k][tx];").replace("  //!", ""), "swapped-index",
           "ws[tx]["),
    Faulty("grid_of_a_batch", BATCHES, "swapped-grid", "(N + 31) / 32, (M + 3) / 4, batch", edits=2),
    Faulty("last_distance_of_shuffles", WARPS, "reduction-distance", "d >= 1"),
    Faulty("counter_of_the_other_loop", REGISTERS, "wrong-counter", "a[i] * b[j]"),
]  # fmt: skip
