"""Kernels that add a bias and a matrix to the product, and kernels whose only output is called D."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

RESIDUAL = """
__global__ void layer(const float* A, const float* B, const float* bias, const float* residual, float* out, int M,
                      int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    out[row * N + col] = sum + bias[BIAS] + residual[PLACE];
}
// gemmsmith: block=8,8 grid=ceil(N/8),ceil(M/8)
"""


@pytest.mark.parametrize(("bias", "place", "status"), [
    ("col", "row * N + col", "right"),
    ("col", "col * M + row", "wrong"),
    ("0", "row * N + col", "wrong"),
])  # fmt: skip
def test_a_bias_and_a_residual(
    bias: str, place: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = RESIDUAL.replace("BIAS", bias).replace("PLACE", place)
    _, found = check(tmp_path, source, capsys, "--trial", "M, N and K all different")
    assert found["status"] == status, found


D = """
__global__ void gemm(const float* A, const float* B, float* D, int M, int N, int K, int lda, int ldb, int ldd) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * lda + k] * B[k * ldb + col];
    D[row * LEADING + col] = sum;
}
// gemmsmith: block=8,8 grid=ceil(N/8),ceil(M/8)
"""


@pytest.mark.parametrize(("leading", "code"), [("ldd", 0), ("N", 1)])
def test_the_leading_dimension_of_an_output_d(
    leading: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = check(tmp_path, D.replace("LEADING", leading), capsys, "--trial", "padded rows")
    assert found[0] == code, found[1]


WORDS = """
__global__ void dots(const signed char* x_q, const signed char* w_q, float* y, float scale_x, const float* scale_w,
                     int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x, sum = 0;
    if (row >= M || col >= N) return;
    const int* xs = (const int*)x_q;
    const int* ws = (const int*)w_q;
    for (int k = 0; k < K / 4; ++k) sum = __dp4a(xs[row * (K / 4) + k], ws[col * (K / 4) + k], sum);
    y[row * N + col] = sum * (scale_x * scale_w[col]);
}
// gemmsmith: block=8,8 grid=ceil(N/8),ceil(M/8)
"""


def test_a_const_pointer_made_of_an_operand_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, WORDS, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
