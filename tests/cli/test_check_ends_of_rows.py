"""Rows that start on whole vectors and end within one, of a kernel whose host code asks that of leading dimensions."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

DOT = """
#include <cassert>
__global__ void dots(int M, int N, int K, const float* A, int lda, const float* B, int ldb, float* C, int ldc) {
    int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
    if (i >= M || j >= N) return;
    const float *a = A + (long)i * lda, *b = B + (long)j * ldb;
    float sum = 0;
    for (int q = 0; q < K / 4; ++q) {
        float4 x = reinterpret_cast<const float4*>(a)[q], y = reinterpret_cast<const float4*>(b)[q];
        sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
    }
    REST
    C[(long)i * ldc + j] = sum;
}
void launch(int M, int N, int K, const float* A, int lda, const float* B, int ldb, float* C, int ldc) {
    assert(lda % 4 == 0 && ldb % 4 == 0);
    dots<<<dim3((N + 31) / 32, (M + 7) / 8), dim3(32, 8)>>>(M, N, K, A, lda, B, ldb, C, ldc);
}
"""
RIGHT = "for (int k = K / 4 * 4; k < K; ++k) sum += a[k] * b[k];"
LOSES_TWO_OF_THREE = "if (K % 4 == 3) sum += a[K - 3] * b[K - 3]; else " + RIGHT


@pytest.mark.parametrize(
    ("rest", "code", "status"),
    [(RIGHT, 0, "aligned_rows"), ("", 0, "aligned_rows"), (LOSES_TWO_OF_THREE, 1, "wrong")],
    ids=["right", "no rest", "a rest of three"],
)
def test_who_is_right_at_some_ends_within_a_vector_is_wrong_at_others(
    rest: str, code: int, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found_code, found = check(tmp_path, DOT.replace("REST", rest), capsys, "--cures", "0")
    assert (found_code, found["status"]) == (code, status)
