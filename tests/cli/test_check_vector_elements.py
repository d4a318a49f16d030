"""Matrices of vectors, ``half2*``: rows have whole ones, whatever the kernel guards."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

from gemmsmith.kernel.element_types import vector_width

PAIRS = """
#include <cuda_fp16.h>
__global__ void pairs(const half2* A, const half2* B, half2* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N / 2) return;
    half2 sum = __float2half2_rn(0.f);
    for (int k = 0; k < K; ++k) {
        half2 both = A[row * (K / 2) + k / 2];
        sum = __hfma2(__half2half2(k % 2 ? both.y : both.x), B[k * (N / 2) + col], sum);
    }
    C[row * (N / 2) + col] = sum;
}
void run(const half2* A, const half2* B, half2* C, int M, int N, int K) {
    pairs<<<dim3((N / 2 + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def test_an_odd_k_has_no_whole_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = check(tmp_path, PAIRS, capsys)
    assert found["status"] == "whole_tiles"
    assert "multiples of 2 in N, 2 in K" in found["verdict"]


@pytest.mark.parametrize(("ctype", "width"), [
    ("half2", 2), ("__half2", 2), ("__nv_bfloat162", 2), ("float4", 4), ("uchar4", 4), ("float", 1),
    ("__nv_bfloat16", 1), ("int8_t", 1), ("float32_t", 1), ("", 1),
])  # fmt: skip
def test_widths(ctype: str, width: int) -> None:
    assert vector_width(ctype) == width
