"""Launches that ignore a parameter of their host function by which another launch goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

FILE = """
__global__ void whole(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
template <bool T>
__global__ void any(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * (T ? B[col * K + k] : B[k * N + col]);
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K, bool trans_b) {
    dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);
    FIRST
    if (trans_b) any<true><<<grid, block>>>(A, B, C, M, N, K);
    else any<false><<<grid, block>>>(A, B, C, M, N, K);
}
"""
LAUNCH = "{ whole<<<grid, block>>>(A, B, C, M, N, K); return; }"
WHOLE = "M % 16 == 0 && N % 16 == 0"


@pytest.mark.parametrize(("first", "status"), [
    (f"if ({WHOLE}) {LAUNCH}", "wrong"),
    (f"if ({WHOLE} && !trans_b) {LAUNCH}", "right"),
    (f"if (trans_b) transpose(B); if ({WHOLE}) {LAUNCH}", "right"),  # it is taken care of
])  # fmt: skip
def test_a_flag_that_one_launch_ignores(
    first: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, FILE.replace("FIRST", first), capsys, "--entry", "whole")
    assert isinstance(found, dict), found
    assert (code, found["status"] == "wrong") == (status == "wrong", status == "wrong"), found["verdict"]
    assert ("whatever trans_b is" in str(found["trials"])) == (status == "wrong")


CLEARED = """
__global__ void added(const float* A, const float* B, float* C, int M, int N, int K, float alpha) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] += alpha * sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    FIRST
    added<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K, alpha);
}
"""
CLEAR = "if (beta == 0.0f) cudaMemset(C, 0, sizeof(float) * M * N);"


@pytest.mark.parametrize(("first", "is_right"), [
    (CLEAR, False),
    (f"{CLEAR} else if (beta != 1.0f) scale(C, beta, M * N);", True),
    (f"if (beta != 0.0f && beta != 1.0f) return; {CLEAR}", True),
    ("scale(C, beta, M * N);", True),
    ("", True),  # an interface that it does not serve
])  # fmt: skip
def test_a_beta_that_is_only_compared(
    first: str, is_right: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, CLEARED.replace("FIRST", first), capsys)
    assert isinstance(found, dict), found
    assert (code == 0, "takes beta and only compares it" in str(found["trials"])) == (is_right, not is_right), found
