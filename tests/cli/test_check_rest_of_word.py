"""Rows of bytes that are read as words: with code for the rest of a word, a mistake there is a mistake, no multiple."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

BYTES = """
__global__ void words(const signed char* A, const signed char* B, int* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    int sum = 0;
    for (int k = 0; k < K; k += 4) {
        int a = 0, b = 0;
        if (K % 4 == 0) {
            a = *(const int*)(A + (size_t)row * K + k);
            b = *(const int*)(B + (size_t)col * K + k);
        } else {
            for (int e = 0; e < 4; ++e) {
                if (k + e >= K) break;
                a |= PACKED(A[(size_t)row * K + k + e]) << 8 * e;
                b |= PACKED(B[(size_t)col * K + k + e]) << 8 * e;
            }
        }
        sum = __dp4a(a, b, sum);
    }
    C[(size_t)row * N + col] = sum;
}
// gemmsmith: block=16,16 grid=ceil(N/16),ceil(M/16)
"""


@pytest.mark.parametrize(
    ("packed", "status"), [("(unsigned char)", "right"), ("(int)", "wrong")], ids=["right", "wrong"]
)
def test_the_rest_of_a_word_has_code_of_its_own(
    packed: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = check(tmp_path, BYTES.replace("PACKED", packed), capsys)
    assert found["status"] == status
