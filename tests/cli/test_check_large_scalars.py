"""gemmsmith check tries scalars beyond the limits that a kernel may cut them to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

SCALED = """
__global__ void scaled(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];
    C[(size_t)row * N + col] = ALPHA * sum + BETA * C[(size_t)row * N + col];
}
void run(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    scaled<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, C, M, N, K, alpha, beta);
}
"""


@pytest.mark.parametrize(("alpha", "beta", "found_at"), [
    ("fminf(alpha, 64.0f)", "beta", "alpha 100.5, beta -100.5"),
    ("alpha", "fmaxf(beta, -80.0f)", "alpha 100.5, beta -100.5"),
    ("fmaxf(alpha, -50.0f)", "beta", "alpha -201, beta 125.5"),
    ("(alpha > 8.0f ? (float)(int)alpha : alpha)", "beta", "alpha 100.5, beta -100.5"),
], ids=["large alpha", "beta below 0", "alpha below 0", "alpha without its fraction"])  # fmt: skip
def test_a_scalar_that_is_cut_is_found(
    alpha: str, beta: str, found_at: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.cu"
    file.write_text(SCALED.replace("ALPHA", alpha).replace("BETA", beta), encoding="utf-8")
    assert run_command(["check", str(file), "--json", "--cures", "0"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["trials"][-1]["label"] == found_at, found["verdict"]
