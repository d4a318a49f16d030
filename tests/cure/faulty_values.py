"""Kernels with a wrong result, or accesses out of bounds, each with the cure that check must name."""

from __future__ import annotations

from faulty_kernel import Faulty
from faulty_races import BARRIER, HELPERS, TILED

NAIVE = """
__global__ void naive(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M && col < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) {
            sum += A[row * K + k] * B[k * N + col];
        }
        C[row * N + col] = alpha * sum + beta * C[row * N + col];
    }
}

void run_naive(int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
    dim3 blockDim(32, 8);
    dim3 gridDim((N + 31) / 32, (M + 7) / 8);
    naive<<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
}
"""
EARLY = """
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
template <typename T>
__global__ void gemm_early(const T* a, int lda, const T* b, int ldb, T* c, int ldc, int m, int n, int k) {
    int i = blockIdx.y * 16 + threadIdx.y;
    int j = blockIdx.x * 16 + threadIdx.x;
    if (i >= m || j >= n) return;
    T acc = T(0);
    for (int p = 0; p < k; p++) acc += a[i * lda + p] * b[p * ldb + j];
    c[i * ldc + j] = acc;
}
void call(const float* a, int lda, const float* b, int ldb, float* c, int ldc, int m, int n, int k) {
    gemm_early<float><<<dim3(CEIL_DIV(n, 16), CEIL_DIV(m, 16)), dim3(16, 16)>>>(a, lda, b, ldb, c, ldc, m, n, k);
}
"""
BLOCKTILE = """
template <const int BM, const int BN, const int BK, const int TM>
__global__ void sgemm1DBlocktiling(int M, int N, int K, float alpha, const float *A, const float *B, float beta,
                                   float *C) {
  const uint cRow = blockIdx.y;
  const uint cCol = blockIdx.x;
  const int threadCol = threadIdx.x % BN;
  const int threadRow = threadIdx.x / BN;
  __shared__ float As[BM * BK];
  __shared__ float Bs[BK * BN];
  A += cRow * BM * K;
  B += cCol * BN;
  C += cRow * BM * N + cCol * BN;
  const uint innerColA = threadIdx.x % BK;
  const uint innerRowA = threadIdx.x / BK;
  const uint innerColB = threadIdx.x % BN;
  const uint innerRowB = threadIdx.x / BN;
  float threadResults[TM] = {0.0};
  for (uint bkIdx = 0; bkIdx < K; bkIdx += BK) {
    As[innerRowA * BK + innerColA] = A[innerRowA * K + innerColA];
    Bs[innerRowB * BN + innerColB] = B[innerRowB * N + innerColB];
    __syncthreads();
    A += BK;
    B += BK * N;
    for (uint dotIdx = 0; dotIdx < BK; ++dotIdx) {
      float tmpB = Bs[dotIdx * BN + threadCol];
      for (uint resIdx = 0; resIdx < TM; ++resIdx) {
        threadResults[resIdx] += As[(threadRow * TM + resIdx) * BK + dotIdx] * tmpB;
      }
    }
    __syncthreads();
  }
  for (uint resIdx = 0; resIdx < TM; ++resIdx) {
    C[(threadRow * TM + resIdx) * N + threadCol] =
        alpha * threadResults[resIdx] + beta * C[(threadRow * TM + resIdx) * N + threadCol];
  }
}
void runSgemm1DBlocktiling(int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
  dim3 gridDim(N / 32, M / 32);
  dim3 blockDim(32 * 8);
  sgemm1DBlocktiling<32, 32, 8, 4><<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
}
"""
SHUFFLE = """
// One warp computes one output.
__global__ void warp_dot(const float* A, const float* B, float* C, int M, int N, int K) {
    int lane = threadIdx.x % 32;
    int id = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (id >= M * N) return;
    int row = id / N, col = id % N;
    float sum = 0.f;
    for (int k = lane; k < K; k += 32) sum += A[row * K + k] * B[k * N + col];
    for (int offset = 16; offset > 0; offset >>= 1)
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (lane == 0) C[row * N + col] = sum;
}
void launch(float* A, float* B, float* C, int M, int N, int K) {
    warp_dot<<<(M * N * 32 + 127) / 128, 128>>>(A, B, C, M, N, K);
}
"""
DIVERGENT = """
__global__ void guarded(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[8][8];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 8) {
        a[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0;
        __syncthreads();
        if (col < N) {
            for (int k = 0; k < 8 && k0 + k < K; ++k) sum += a[y][k] * B[(k0 + k) * N + col];
            __syncthreads();  //!
        }
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    guarded<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, C, M, N, K);
}
"""


def change(source: str, old: str, new: str) -> str:
    """The source with one mistake; the changed line is marked."""
    assert source.count(old) == 1, (old, source.count(old))
    at = source.index(old)
    end = at + len(new)
    made = source[:at] + new + source[at + len(old) :]
    line_end = made.index("\n", end - 1 if new.endswith("\n") else end)
    return made[:line_end] + "  //!" + made[line_end:]


TILED_OK = TILED % (BARRIER, BARRIER)
HELPERS_OK = HELPERS % (BARRIER, BARRIER)

# A guard of rows that is wrong where A is loaded and where C is stored: one change alone cures nothing.
TWO_GUARDS = """
#define TS 16
__global__ void two_guards(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float sa[TS][TS], sb[TS][TS];
    int row = blockIdx.y * TS + threadIdx.y, col = blockIdx.x * TS + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < (K + TS - 1) / TS; ++t) {
        int x = t * TS + threadIdx.x, y = t * TS + threadIdx.y;
        sa[threadIdx.y][threadIdx.x] = row <= M && x < K ? A[row * K + x] : 0.0f;  //!
        sb[threadIdx.y][threadIdx.x] = y < K && col < N ? B[y * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TS; ++k) sum += sa[threadIdx.y][k] * sb[k][threadIdx.x];
        __syncthreads();
    }
    if (row <= M && col < N) C[row * N + col] = sum;  //!
}
void run_two_guards(const float *A, const float *B, float *C, int M, int N, int K) {
    two_guards<<<dim3((N + TS - 1) / TS, (M + TS - 1) / TS), dim3(TS, TS)>>>(A, B, C, M, N, K);
}
"""
VALUES = [
    # These three may be what an author meant: nobody can know. A cause is named all the same. It quotes the line and
    # says what a product has there instead, both of which are true; the change passes every trial; and a reader who
    # meant |a·b|, alpha² or a factor sees from the same line why check calls it wrong. What the cause must not do is
    # claim a purpose: it does not say that `fabsf` belongs to the sum, since the change that was tried leaves it out.
    Faulty("absolute_values", change(NAIVE, "sum += A[row * K + k] * B[k * N + col];",
                                     "sum += fabsf(A[row * K + k] * B[k * N + col]);"), "activated-term", edits=1),
    Faulty("scaled_by_a_square", change(NAIVE, "alpha * sum", "powf(alpha, 2.f) * sum"), "wrong-epilogue",
           "= alpha * sum + beta * C[row * N + col];"),
    Faulty("slightly_off", change(NAIVE, "alpha * sum", "alpha * sum * 1.0001f"), "wrong-epilogue",
           "= alpha * sum + beta * C[row * N + col];"),
    Faulty("the same guard at load and store", TWO_GUARDS, "comparison", "row < M", edits=2),
    Faulty("two guards at load and store", change(TWO_GUARDS, "if (row <= M && col < N", "if (row < M && col <= N"),
           "comparison", edits=2),
    Faulty("naive_guard_of_rows", change(NAIVE, "if (row < M", "if (row <= M"), "comparison"),
    Faulty("naive_guard_of_columns", change(NAIVE, "col < N)", "col <= N)"), "comparison"),
    Faulty("naive_loop_too_long", change(NAIVE, "k < K;", "k <= K;"), "comparison"),
    Faulty("naive_loop_too_short", change(NAIVE, "k < K;", "k < K - 1;"), "loop-bound"),
    Faulty("naive_loop_from_one", change(NAIVE, "int k = 0;", "int k = 1;"), "loop-start"),
    Faulty("naive_ld_of_b", change(NAIVE, "B[k * N + col]", "B[k * K + col]"), "wrong-leading-dimension"),
    Faulty("naive_ld_of_a", change(NAIVE, "A[row * K + k]", "A[row * N + k]"), "wrong-leading-dimension"),
    Faulty("naive_swapped_guard", change(NAIVE, "row < M && col < N", "row < N && col < M"), "swapped-guard"),
    Faulty("naive_floor_grid",
           change(NAIVE, "gridDim((N + 31) / 32, (M + 7) / 8)", "gridDim(N / 32, M / 8)"), "floor-grid"),
    Faulty("naive_swapped_grid",
           change(NAIVE, "gridDim((N + 31) / 32, (M + 7) / 8)", "gridDim((M + 7) / 8, (N + 31) / 32)"), "swapped-grid"),
    Faulty("naive_no_guard", change(NAIVE, "if (row < M && col < N) {", "{").replace("//!", ""), "missing-guard"),
    Faulty("naive_uninitialised", change(NAIVE, "float sum = 0.0f;", "float sum;"), "uninitialised-accumulator"),
    Faulty("naive_without_alpha", change(NAIVE, "alpha * sum +", "sum +"), "missing-scalar", text="alpha"),
    Faulty("naive_without_beta",
           change(NAIVE, "alpha * sum + beta * C[row * N + col]", "alpha * sum"), "missing-scalar", text="beta"),
    Faulty("early_return", change(EARLY, "i >= m", "i > m"), "comparison"),
    Faulty("early_return_swapped", change(EARLY, "i >= m || j >= n", "i >= n || j >= m"), "swapped-guard"),
    Faulty("early_wrong_ldb", change(EARLY, "b[p * ldb + j]", "b[p * lda + j]"), "wrong-leading-dimension"),
    Faulty("early_n_for_ldc", change(EARLY, "c[i * ldc + j]", "c[i * n + j]"), "wrong-leading-dimension"),
    Faulty("early_floor_grid", change(EARLY, "CEIL_DIV(m, 16)", "m / 16"), "floor-grid"),
    Faulty("tiled_guard", change(TILED_OK, "if (row < M && col < N) C", "if (row <= M && col < N) C"), "comparison"),
    Faulty("tiled_early_return",
           change(TILED_OK, "blockIdx.x * T + tx;", "blockIdx.x * T + tx;\n    if (row >= M || col >= N) return;"),
           "early-return", text="+    if (row >= M || col >= N) return;"),
    Faulty("tiled_swapped_index", change(TILED_OK, "As[ty][k]", "As[k][ty]").replace("//!", ""), "swapped-index"),
    Faulty("tiled_no_tail", change(TILED_OK, "k0 < K;", "k0 + T <= K;"), "missing-tail"),
    Faulty("tiled_no_guard_of_the_store",
           change(TILED_OK, "if (row < M && col < N) C", "C"), "missing-guard"),
    Faulty("tiled_no_guard_of_a",
           change(TILED_OK, "(row < M && k0 + tx < K) ? A[row * K + k0 + tx] : 0.0f", "A[row * K + k0 + tx]"),
           "missing-guard"),
    Faulty("tiled_no_guard_of_either",  # the store has its guard, and needs no second one
           change(TILED_OK, "(row < M && k0 + tx < K) ? A[row * K + k0 + tx] : 0.0f", "A[row * K + k0 + tx]").replace(
               "(col < N && k0 + ty < K) ? B[(k0 + ty) * N + col] : 0.0f", "B[(k0 + ty) * N + col]"),
           "missing-guard", edits=4),
    Faulty("tiled_count_in_a_variable",  # rows and columns are guarded, k is not
           TILED_OK.replace("for (int k0 = 0; k0 < K; k0 += T)", "const int tiles = K / T; //!\n"
                            "    for (int k0 = 0; k0 < tiles * T; k0 += T)").replace(
               "row < M && k0 + tx < K", "row < M").replace("col < N && k0 + ty < K", "col < N"),
           "missing-tail+missing-guard", "k0 + ty < K", edits=3),
    Faulty("helpers_wrong_extent", change(HELPERS_OK, "B[(k0 + k) * N", "B[(k0 + k) * K"), "wrong-leading-dimension"),
    Faulty("helpers_guard", change(HELPERS_OK, "if (r < M && c < N)", "if (r < M && c <= N)"), "comparison"),
    Faulty("blocktile_wrong_step", change(BLOCKTILE, "B += BK * N;", "B += BK * K;"), "wrong-leading-dimension"),
    Faulty("blocktile_wrong_start", change(BLOCKTILE, "A += cRow * BM * K;", "A += cRow * BM * N;"),
           "wrong-leading-dimension"),
    Faulty("blocktile_swapped_axes",
           change(BLOCKTILE, "const uint cRow = blockIdx.y;\n  const uint cCol = blockIdx.x;",
                  "const uint cRow = blockIdx.x;\n  const uint cCol = blockIdx.y;").replace("//!", ""),
           "swapped-grid"),
    Faulty("shuffle_mask", change(SHUFFLE, "0xffffffff", "0x0000ffff"), "wrong-mask"),
    Faulty("shuffle_distance", change(SHUFFLE, "int offset = 16;", "int offset = 8;"), "reduction-distance"),
    Faulty("divergent_barrier", DIVERGENT, "divergent-barrier"),
]  # fmt: skip
