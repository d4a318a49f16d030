"""gemmsmith check where the plain trials take all its seconds: many k-tiles are tried all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.check_fitted import FittedTrials
from gemmsmith.cli.main import run_command

_NAIVE = """__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < LAST; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    mine<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(("last", "expected"), [("K", 0), ("min(K, 900)", 1)])
def test_many_k_tiles_without_seconds(
    last: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.cu").write_text(_NAIVE.replace("LAST", last))
    monkeypatch.setattr(FittedTrials, "_left", lambda *_: -1.0)
    assert run_command(["check", str(tmp_path / "mine.cu"), "--cures", "0"]) == expected
