"""gemmsmith check of a product whose sums have fewer digits than its C: right, with a warning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

KERNEL = """#include <cuda_fp16.h>
__global__ void hgemm(const half* A, const half* B, OUT* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    half sum = __float2half(0.0f);
    for (int k = 0; k < K; ++k) sum = __hfma(A[row * K + k], B[k * N + col], sum);
    C[row * N + col] = sum;
}
// gemmsmith: block=8,8 grid=ceil(N/8),ceil(M/8)
"""


@pytest.mark.parametrize(("out", "options", "code"), [("float", [], 0), ("float", ["--strict"], 1), ("half", [], 0),
                                                      ("half", ["--strict"], 0)])  # fmt: skip
def test_sums_in_fp16(
    out: str, options: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.cu").write_text(KERNEL.replace("OUT", out), encoding="utf-8")
    alone = ["--trial", "integers, bit for bit", "--json", "--cures", "0"]
    assert run_command(["check", str(tmp_path / "mine.cu"), *alone, *options]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "right"
    assert any("3 decimal digits" in text for text in found["warnings"]) == (out == "float")
