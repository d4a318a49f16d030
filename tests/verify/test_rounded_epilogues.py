"""Kernels that round alpha·A·B to the type of C before they add beta·C: their layout is found all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

KERNEL = """
#include <cuda_bf16.h>
// C is column-major, B transposed.
__global__ void rounded(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int K, int N,
                        float alpha, float beta) {
    const int m = blockIdx.x * 16 + threadIdx.x, n = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += __bfloat162float(A[m * K + k]) * __bfloat162float(B[n * K + k]);
    const float scaled = __bfloat162float(__float2bfloat16(alpha * sum));
    C[n * M + m] = __float2bfloat16(scaled + (beta == 0.0f ? 0.0f : beta * __bfloat162float(C[n * M + m])));
}
void run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int K, int N, float al, float be) {
    rounded<<<dim3((M + 15) / 16, (N + 15) / 16), dim3(16, 16)>>>(A, B, C, M, K, N, al, be);
}
"""


def test_the_layout_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rounded.cu").write_text(KERNEL)
    assert run_command(["check", str(tmp_path / "rounded.cu"), "--trial", "integers, bit for bit"]) == 0
    assert "column" in capsys.readouterr().out
