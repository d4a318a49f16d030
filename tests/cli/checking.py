"""What tests of `check` share: a kernel with one output a thread, and the command on a source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command

QUICK = ("--trial", "M, N and K all different")
ONE_OUTPUT_A_THREAD = """
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
"""


def check(folder: Path, source: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any]:
    """The exit code, and the report; of an error its message and hint. No causes are looked for."""
    (folder / "k.cu").write_text(source, encoding="utf-8")
    code = run_command(["check", str(folder / "k.cu"), "--json", "--cures", "0", *more])
    found = json.loads(capsys.readouterr().out)
    return code, f"{found['error']['message']}; {found['error']['hint']}" if "error" in found else found
