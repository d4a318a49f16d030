"""gemmsmith check of parts of sums, added to a result that host code clears: in a struct, or beside another C."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

SLICES = """
struct Args { const float* A; const float* B; const float* C; float* D; int M, N, K; float alpha, beta; int each; };
__global__ void slices(Args p) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    int from = blockIdx.z * p.each, to = min(from + p.each, p.K);
    if (row >= p.M || col >= p.N) return;
    float sum = 0.0f;
    for (int k = from; k < to; ++k) sum += p.A[row * p.K + k] * p.B[k * p.N + col];
    float all = p.alpha * sum;
    if (p.beta != 0.0f && WHO) all += p.beta * p.C[row * p.N + col];
    atomicAdd(&p.D[row * p.N + col], all);
}
void run(const float* A, const float* B, const float* C, float* D, int M, int N, int K, float alpha, float beta) {
    int parts = K >= 64 ? 4 : 1;
    int each = (K + parts - 1) / parts;
    parts = (K + each - 1) / each;  // each was computed from the number before
    cudaMemset(D, 0, sizeof(float) * M * N);
    Args args{A, B, C, D, M, N, K, alpha, beta, each};
    slices<<<dim3((N + 7) / 8, (M + 7) / 8, parts), dim3(8, 8)>>>(args);
}
"""


@pytest.mark.parametrize(("who", "status"), [("blockIdx.z == 0", "right"), ("true", "wrong")])
def test_parts_beside_another_c(who: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only one part adds beta * C."""
    _, found = check(tmp_path, SLICES.replace("WHO", who), capsys, "--trial", "alpha and beta")
    assert found["status"] == status, found
