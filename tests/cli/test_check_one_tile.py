"""Kernels for one tile alone, launched with one block: judged at the sizes that host code, or the user, gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

ONE_TILE = """
__global__ void tile(const float* a, const float* b, float* c, int M, int N, int K) {
    int row = threadIdx.y, col = threadIdx.x;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[INDEX];
    c[row * N + col] = sum;
}
int main() {
    const int M = 16, N = 8, K = 24;
    float *a, *b, *c;
    dim3 grid(1, 1), block(N, M);
    tile<<<grid, dim3(8, 16)>>>(a, b, c, M, N, K);
}
"""


@pytest.mark.parametrize(("index", "status"), [("k * N + col", "right"), ("k * M + col", "wrong")])
def test_the_sizes_of_its_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str], index: str, status: str) -> None:
    _, found = check(tmp_path, ONE_TILE.replace("INDEX", index), capsys)
    assert found["status"] == status
    assert any("M=16, N=8, K=24" in line for line in found["found"])


def test_the_sizes_that_are_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = ONE_TILE.replace("INDEX", "k * N + col").replace("K = 24", "K = depth()")
    code, error = check(tmp_path, unknown, capsys)
    assert code == 2
    assert "--m, --n and --k" in error
    _, found = check(tmp_path, unknown, capsys, "--m", "16", "--n", "8", "--k", "16")
    assert found["status"] == "right"
