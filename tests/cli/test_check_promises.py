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
    (" With FP32 accumulation.", NARROW, False),
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
    (" BLAS semantics.", f"beta == 0.0f ? alpha * sum : {KEPT}", True),
])  # fmt: skip
def test_beta(said: str, result: str, is_right: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed, found = check(tmp_path, SCALED.replace("SAID", said).replace("RESULT", result), capsys)
    assert (failed == 0, found["status"] != "wrong") == (is_right, is_right), found
