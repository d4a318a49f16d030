"""Kernels in which threads leave too early, sums or tiles are not set, or arrays and scalars are misplaced."""

from __future__ import annotations

from faulty_kernel import Faulty
from faulty_values import EARLY, NAIVE, TILED_OK, change

# The barriers are needed by all threads; only those inside C take the branch. The tile is 16 wide: whole warps leave.
IN_A_BRANCH = """
#define W 16
__global__ void branch(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float left[W][W], right[W][W];
    int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * W + y, j = blockIdx.x * W + x;
    float sum = 0;
    for (int p = 0; p < K; p += W) {
        left[y][x] = i < M && p + x < K ? A[i * K + p + x] : 0;
        right[y][x] = j < N && p + y < K ? B[(p + y) * N + j] : 0;
        %s
    }
    if (i < M && j < N) C[i * N + j] = sum;
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    branch<<<dim3((N + W - 1) / W, (M + W - 1) / W), dim3(W, W)>>>(A, B, C, M, N, K);
}
"""
_PRODUCT = "for (int q = 0; q < W; ++q) sum += left[y][q] * right[q][x];"
BOTH = (
    IN_A_BRANCH
    % f"""if (i < M && j < N) {{
            __syncthreads();  //!
            {_PRODUCT}
            __syncthreads();  //!
        }}"""
)
BETWEEN = (
    IN_A_BRANCH
    % f"""if (i < M && j < N) {{
            sum += 0;
            __syncthreads();  //!
            {_PRODUCT}
        }}
        __syncthreads();"""
)
ALONE = (
    IN_A_BRANCH
    % f"""if (i < M)
            __syncthreads();
        {_PRODUCT}
        __syncthreads();"""
)

RETURNS = """
__global__ void leaves(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[16][16], Bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    if (row >= M || col >= N) { return; }  //!
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        As[ty][tx] = (k0 + tx < K) ? A[row * K + k0 + tx] : 0.0f;  //!
        Bs[ty][tx] = (k0 + ty < K) ? B[(k0 + ty) * N + col] : 0.0f;  //!
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    C[row * N + col] = sum;  //!
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    leaves<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
COLUMNS = """
__global__ void two_columns(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, first = (blockIdx.x * blockDim.x + threadIdx.x) * 2;
    float total = 0.0f;  //!
    for (int j = first; j < first + 2; ++j) {
        for (int k = 0; k < K; ++k)
            if (row < M && j < N) total += A[row * K + k] * B[k * N + j];
        if (row < M && j < N) C[row * N + j] = total;
    }
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    two_columns<<<dim3((N + 31) / 32, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
_LOADS = ("As[ty][tx] = (row < M && k0 + tx < K) ? A[row * K + k0 + tx] : 0.0f;",
          "Bs[ty][tx] = (col < N && k0 + ty < K) ? B[(k0 + ty) * N + col] : 0.0f;")  # fmt: skip
UNFILLED = change(change(TILED_OK, _LOADS[0], "if (row < M && k0 + tx < K) As[ty][tx] = A[row * K + k0 + tx];"),
                  _LOADS[1], "if (col < N && k0 + ty < K) Bs[ty][tx] = B[(k0 + ty) * N + col];")  # fmt: skip
GRID_IN_VARIABLES = change(
    change(NAIVE, "    dim3 gridDim((N + 31) / 32, (M + 7) / 8);\n",
           "    int across = N / 32;\n    int down = M / 8;\n    dim3 threads(32, 8), blocks(across, down);\n"),
    "<<<gridDim, blockDim>>>", "<<<blocks, threads>>>").replace("  //!", "").replace("/ 32;", "/ 32;  //!")  # fmt: skip
# Four columns at once: where N is no multiple of 4 the vectors are misaligned, and hide the guard that is missing.
FOUR_COLUMNS = """
__global__ void four(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float rows[16][16];
    __shared__ float4 columns[16][16];
    int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * 16 + y, j = blockIdx.x * 64 + x * 4;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int p = 0; p < K; p += 16) {
        rows[y][x] = i < M && p + x < K ? A[i * K + p + x] : 0;
        columns[y][x] = p + y < K ? *reinterpret_cast<const float4*>(&B[(p + y) * N + j]) : float4{0, 0, 0, 0};  //!
        __syncthreads();
        for (int q = 0; q < 16; ++q) {
            float a = rows[y][q];
            float4 b = columns[q][x];
            sum.x += a * b.x; sum.y += a * b.y; sum.z += a * b.z; sum.w += a * b.w;
        }
        __syncthreads();
    }
    if (i < M && j < N) *reinterpret_cast<float4*>(&C[i * N + j]) = sum;
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    four<<<dim3((N + 63) / 64, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
TWO_HALVES = """
__global__ void halves(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float tiles[2][8][8];
    int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * 8 + y, j = blockIdx.x * 8 + x;
    float sum = 0;
    for (int p = 0; p < K; p += 8) {
        if (threadIdx.z == 0) {
            tiles[0][y][x] = i < M && p + x < K ? A[i * K + p + x] : 0;
            __syncthreads();  //!
        } else {
            tiles[1][y][x] = p + y < K && j < N ? B[(p + y) * N + j] : 0;
        }
        if (threadIdx.z == 0)
            for (int q = 0; q < 8; ++q) sum += tiles[0][y][q] * tiles[1][q][x];
        __syncthreads();
    }
    if (threadIdx.z == 0 && i < M && j < N) C[i * N + j] = sum;
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    halves<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8, 2)>>>(A, B, C, M, N, K);
}
"""

THREADS = [
    Faulty("vectors_without_a_guard_of_columns", FOUR_COLUMNS, "missing-guard", "p + y < K && j < N ?"),
    Faulty("both_barriers_in_a_branch", BOTH, "divergent-barrier"),
    Faulty("a_barrier_between_parts_of_a_branch", BETWEEN, "divergent-barrier", "if (i < M && j < N) {"),
    Faulty("a_branch_that_is_a_barrier", ALONE, "divergent-barrier", "-        if (i < M)"),
    Faulty("a_return_before_barriers", RETURNS, "early-return", "(k0 + tx < K && row < M)", edits=4),
    Faulty("a_sum_of_two_columns", COLUMNS, "accumulator-not-reset", edits=2),
    Faulty("tiles_without_zeros", UNFILLED, "unfilled-tile", "else Bs[ty][tx] = 0;", edits=2),
    Faulty("arrays_swapped", change(TILED_OK, "As[ty][k] * Bs[k][tx]", "Bs[ty][k] * As[k][tx]"), "swapped-arrays"),
    Faulty("alpha_for_both_terms", change(NAIVE, "alpha * sum + beta * C[row * N + col]",
                                          "alpha * (sum + beta * C[row * N + col])"), "misplaced-scalar"),
    Faulty("beta_for_both_terms", change(NAIVE, "alpha * sum + beta * C[row * N + col]",
                                         "(alpha * sum + C[row * N + col]) * beta"), "misplaced-scalar"),
    Faulty("alpha_twice_in_a_line", change(NAIVE, "alpha * sum", "alpha * alpha * sum"), "repeated-scalar"),
    Faulty("alpha_in_the_loop", change(NAIVE, "sum += A", "sum += alpha * A").replace("//!", ""), "repeated-scalar"),
    Faulty("a_barrier_in_one_branch_of_two", TWO_HALVES, "divergent-barrier"),
    Faulty("floor_grid_in_variables", GRID_IN_VARIABLES, "floor-grid", "(M + 8 - 1) / 8", edits=2),
    Faulty("block_declared_before_the_grid", change(
        EARLY, "    gemm_early<float><<<dim3(CEIL_DIV(n, 16), CEIL_DIV(m, 16)), dim3(16, 16)>>>",
        "    dim3 block(16, 16), grid(n / 16, m / 16);\n    gemm_early<float><<<grid, block>>>").replace(
            "  //!", "").replace("grid(n / 16, m / 16);", "grid(n / 16, m / 16);  //!"), "floor-grid", edits=2),
]  # fmt: skip
