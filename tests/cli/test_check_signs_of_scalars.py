"""Scalars that are both negative, and fp64 scalars that fp32 does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

PRODUCT = """
__global__ void product(const T* A, const T* B, T* C, int M, int N, int K, T alpha, T beta) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    T sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = STORED;
}
void run(T* a, T* b, T* c, int m, int n, int k, T alpha, T beta) {
    product<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(a, b, c, m, n, k, alpha, beta);
}
"""
RIGHT = "alpha * sum + (beta == 0 ? 0 : beta * C[row * N + col])"
BOTH = RIGHT.replace("alpha", "(alpha < 0 && beta < 0 ? -alpha : alpha)")
ROUNDED = RIGHT.replace("alpha", "(beta == 0 ? (double)(float)alpha : alpha)")


@pytest.mark.parametrize(
    ("stored", "kind", "status"), [(BOTH, "float", "wrong"), (ROUNDED, "double", "wrong"), (RIGHT, "double", "right")]
)
def test_a_scalar_that_is_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stored: str, kind: str, status: str
) -> None:
    source = f"using T = {kind};\n" + PRODUCT.replace("STORED", stored)
    _, found = check(tmp_path, source, capsys)
    assert found["status"] == status, found
