"""gemmsmith check holds a kernel to what its comments promise: sums in fp32, a C that is not read at beta = 0."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

HALF = """
#include <cuda_fp16.h>
// C = A * B for half matrices.SAID
__global__ void hgemm(const half* A, const half* B, half* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    TYPE sum = START;
    for (int k = 0; k < K; ++k) STEP;
    C[row * N + col] = END;
}
"""
NARROW = {"TYPE": "half", "START": "__float2half(0.0f)", "END": "sum",
          "STEP": "sum = __hfma(A[row * K + k], B[k * N + col], sum)"}  # fmt: skip
WIDE = {"TYPE": "float", "START": "0.0f", "END": "__float2half(sum)",
        "STEP": "sum += __half2float(A[row * K + k]) * __half2float(B[k * N + col])"}  # fmt: skip

SCALED = """
// C = alpha * A * B + beta * C.SAID
__global__ void sgemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = RESULT;
}
"""
KEPT = "alpha * sum + beta * C[row * N + col]"


@pytest.mark.parametrize(("said", "meant", "is_right"), [
    ("", NARROW, True), (" Products are summed in half.", NARROW, True),
    (" Accumulates in fp32.", NARROW, False), (" The sum is kept in float.", NARROW, False),
    (" With FP32 accumulation.", NARROW, False), (" Products are summed in fp32 and rounded once.", NARROW, False),
    (" Partial sums in half, flushed into fp32 accumulators.", NARROW, True),
    (" Accumulates in fp32.", WIDE, True),
])  # fmt: skip
def test_sums(
    said: str, meant: dict[str, str], is_right: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HALF.replace("SAID", said)
    for word, code in meant.items():
        text = text.replace(word, code)
    failed, found = check(tmp_path, text, capsys)
    assert (failed == 0, found["status"] != "wrong") == (is_right, is_right), found


@pytest.mark.parametrize(("said", "result", "is_right"), [
    ("", KEPT, True), (" BLAS semantics.", KEPT, False), (" C is not read when beta == 0.", KEPT, False),
    (" If beta is zero, C may hold anything, NaN included.", KEPT, False),
    (" With beta == 0 the old content of C does not matter.", KEPT, False),
    (" BLAS semantics.", f"beta == 0.0f ? alpha * sum : {KEPT}", True),
])  # fmt: skip
def test_beta(said: str, result: str, is_right: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed, found = check(tmp_path, SCALED.replace("SAID", said).replace("RESULT", result), capsys)
    assert (failed == 0, found["status"] != "wrong") == (is_right, is_right), found


WHOLE = """
// C = A * B, row-major.SAID
__global__ void tile(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    tile<<<dim3((N + 15) / 16, M / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
OTHER = """
// Works for any size.
__global__ void naive(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 0.0f; }









"""


@pytest.mark.parametrize(("said", "is_right"), [
    ("", True), (" M is a multiple of 16.", True), (" Any M and N.", False), (" For arbitrary sizes.", False),
    (" Arbitrary extents, no alignment assumed.", False),
    (" Any number of rows and columns: the rest is not lost.", False), (" Any N and K; M % 16 == 0.", True),
    (" K must be even; M and N are free.", False), (" A is M x K, B is K x N: K is even; m is free.", False),
    (" Arbitrary sizes are not supported.", True), (" M is not any size: whole tiles.", True),
])  # fmt: skip
def test_sizes(said: str, is_right: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed, found = check(tmp_path, WHOLE.replace("SAID", said), capsys)
    assert (failed == 0, found["status"]) == (is_right, "whole_tiles" if is_right else "wrong"), found


def test_what_is_said_of_another_kernel_is_no_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed, found = check(tmp_path, OTHER + WHOLE.replace("SAID", ""), capsys, "--entry", "tile")
    assert (failed, found["status"]) == (0, "whole_tiles"), found


VECTOR = """
// y = A x.SAID
__global__ void gemv(const float* A, const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = 0; i < cols / 4; ++i) {
        float4 a = ((const float4*)(A + row * cols))[i], b = ((const float4*)x)[i];
        sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
    for (int i = cols / 4 * 4; i < cols; ++i) sum += A[row * cols + i] * x[i];
    y[row] = sum;
}
void run(const float* A, const float* x, float* y, int rows, int cols) {
    gemv<<<(rows + 127) / 128, 128>>>(A, x, y, rows, cols);
}
"""


@pytest.mark.parametrize(("said", "status"), [("", "aligned_rows"), (" Any number of columns.", "wrong")])
def test_columns_of_a_product_with_a_vector(
    said: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = check(tmp_path, VECTOR.replace("SAID", said), capsys)
    assert found["status"] == status, found


SPLIT = """
// SAID  M % 16 == 0, N % 8 == 0, K % 8 == 0.
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4, m = blockIdx.y * 16, n = blockIdx.x * 8;
    float c[4] = {};
    for (int k = 0; k < K; k += 8) {
        unsigned big[6], small[6];
        for (int r = 0; r < 6; ++r) {
            float x = r < 4 ? A[(m + g + r % 2 * 8) * K + k + t + r / 2 * 4] : B[(k + t + (r - 4) * 4) * N + n + g];
            asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(big[r]) : "f"(x));
            asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(small[r]) : "f"(x - __uint_as_float(big[r])));
        }
        for (int part = FIRST; part < 3; ++part) {
            unsigned* a = part == 0 ? small : big;
            unsigned* b = part == 1 ? small : big;
            asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                         "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[4]), "r"(b[5]));
        }
    }
    for (int r = 0; r < 4; ++r) C[(m + g + r / 2 * 8) * N + n + t * 2 + r % 2] = c[r];
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    gemm<<<dim3(N / 8, M / 16), 32>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(("said", "first", "is_right"), [
    ("3xTF32.", "0", True), ("3xTF32.", "1", False), ("With the accuracy of fp32.", "2", False),
    ("TF32 tensor cores.", "1", True), ("TF32 tensor cores.", "2", True),
    ("Faster, and loses fp32 accuracy.", "2", True), ("Has not the accuracy of fp32.", "2", True),
])  # fmt: skip
def test_products_of_parts(
    said: str, first: str, is_right: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed, found = check(tmp_path, SPLIT.replace("SAID", said).replace("FIRST", first), capsys)
    assert (failed == 0, found["status"]) == (is_right, "whole_tiles" if is_right else "wrong"), found


@pytest.mark.parametrize(("said", "is_right"), [
    (" M and N need not be multiples of the tile.", False), (" N does not have to be a multiple of 16.", True),
    (" Any M, N, K.", False),
])  # fmt: skip
def test_multiples_that_are_not_needed(
    said: str, is_right: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed, found = check(tmp_path, WHOLE.replace("SAID", said), capsys)
    assert (failed == 0, found["status"]) == (is_right, "whole_tiles" if is_right else "wrong"), found


SWAPPED = """
// C = A * B, row-major.SAID
__global__ void swapped(const float* A, const float* B, float* C, int m, int k, int n) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += A[row * k + i] * B[i * n + col];
    C[row * n + col] = sum;
}
void run(const float* A, const float* B, float* C, int m, int k, int n) {
    swapped<<<dim3((m + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(A, B, C, m, k, n);
}
int main() {
    int m = 96, k = 64, n = 96;
    float *a, *b, *c;
    run(a, b, c, m, k, n);
}
"""


@pytest.mark.parametrize(("said", "status"), [("", "square_only"), (" m, k, n are arbitrary.", "wrong"),
                                              (" Any alpha; m is not arbitrary.", "square_only")])  # fmt: skip
def test_squares_alone(said: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, SWAPPED.replace("SAID", said), capsys)[1]["status"] == status


LARGE = """
// S = Q * D, rows are those of QSAID
__global__ void scores(const float* Q, const float* D, float* S, int nq, int nd, int d) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= nq || col >= nd) return;
    float sum = 0.0f;
    for (int k = 0; k < d; ++k) sum += Q[(size_t)row * d + k] * D[(size_t)k * nd + col];
    S[row * nd + col] = sum;
}
void run(const float* Q, const float* D, float* S, int nq, int nd, int d) {
    scores<<<dim3((nd + 15) / 16, (nq + 15) / 16), dim3(16, 16)>>>(Q, D, S, nq, nd, d);
}
"""


@pytest.mark.parametrize(("said", "status"), [("", "wrong"), (" (nq up to 4096, nd up to 4096)", "right"),
                                              (" (nq up to 131072, nd at most 65536)", "wrong")])  # fmt: skip
def test_sizes_that_32_bits_do_not_index(
    said: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, LARGE.replace("SAID", said), capsys)[1]["status"] == status


RELU = """
// SAID
__global__ void linear_relu(const float* A, const float* B, const float* bias, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = bias[col];
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = RESULT;
}
"""


@pytest.mark.parametrize(("said", "result", "is_right"), [
    ("relu of a linear layer", "fmaxf(sum, 0.0f)", True),
    ("NaN does not propagate, as fmaxf drops it.", "fmaxf(sum, 0.0f)", True),
    ("As torch.relu; NaN and Inf propagate.", "fmaxf(sum, 0.0f)", False),
    ("As torch.relu; NaN and Inf propagate.", "sum < 0.0f ? 0.0f : sum", True),
])  # fmt: skip
def test_nan(said: str, result: str, is_right: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed, found = check(tmp_path, RELU.replace("SAID", said).replace("RESULT", result), capsys)
    assert (failed == 0, found["status"] != "wrong") == (is_right, is_right), found["verdict"]
