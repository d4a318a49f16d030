"""gemmsmith check on kernels that are right for larger multiples of K than their host code asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

CHUNKED = """
#include <cassert>
__global__ void chunked(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float total = 0.0f, part = 0.0f;
    for (int step = 0; step < K / 16; ++step) {
        for (int k = step * 16; k < step * 16 + 16; ++k) part += A[row * K + k] * B[k * N + col];
        if (WHEN) { total += part; part = 0.0f; }
    }
    C[row * N + col] = total;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    assert(K % 16 == 0);
    chunked<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(
    ("when", "expected"), [("(step + 1) % 4 == 0", 1), ("(step + 1) % 4 == 0 || step + 1 == K / 16", 0)]
)
def test_a_k_that_host_code_lets_through_is_judged(
    when: str, expected: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It asks for multiples of 16; one kernel is right for multiples of 64 alone."""
    code, found = check(tmp_path, CHUNKED.replace("WHEN", when), capsys)
    assert code == expected, found
