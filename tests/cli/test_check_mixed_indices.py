"""A kernel that computes some indices in 64 bits and others in 32: which of them it means to go beyond 2³¹ elements."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

PRODUCT = """
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[static_cast<size_t>(row) * K + k] * B[static_cast<size_t>(k) * N + col];
    STORE
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    product<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(("store", "status"), [
    ("C[row * N + col] = sum;", "right"),  # a limit: no index of C has 64 bits
    ("size_t at = row * N + col; C[at] = sum;", "wrong"),  # 64 bits are meant, and computed too late
])  # fmt: skip
def test_large_c(tmp_path: Path, capsys: pytest.CaptureFixture[str], store: str, status: str) -> None:
    _, found = check(tmp_path, PRODUCT.replace("STORE", store), capsys)
    assert found["status"] == status
    assert any("2³¹ elements in C" in trial["label"] and not trial["ok"] for trial in found["trials"])
