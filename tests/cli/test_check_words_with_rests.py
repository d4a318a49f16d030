"""gemmsmith check of int8 products whose rows are words of four bytes, with a rest of K in the last one."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

SOURCE = """
// SAID
__global__ void igemm(const int* A, const int* B, int* C, int M, int N, int K, int pitchA4, int pitchB4) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N) return;
    int sum = 0, words = (K + 3) / 4, rest = REST;
    for (int w = 0; w < words; ++w) {
        int a = A[row * pitchA4 + w], b = B[col * pitchB4 + w];
        if (rest && w == words - 1) a &= MASK;
        sum = __dp4a(a, b, sum);
    }
    C[row * N + col] = sum;
}
void run(const int* A, const int* B, int* C, int M, int N, int K, int pitchA4, int pitchB4) {
    dim3 grid((N + 15) / 16, (M + 15) / 16);
    igemm<<<grid, dim3(16, 16)>>>(A, B, C, M, N, K, pitchA4, pitchB4);
}
"""
RIGHT, NIBBLES = "(1 << 8 * rest) - 1", "(1 << 4 * rest) - 1"


@pytest.mark.parametrize(("said", "rest", "mask", "status", "tried"), [
    ("K is any number.", "K % 4", RIGHT, "right", True),
    ("K is any number.", "K % 4", NIBBLES, "wrong", True),
    ("Padding bytes are zero.", "K % 4", "-1", "right", True),
    ("K is a multiple of 4.", "0", RIGHT, "right", False),
], ids=["right", "wrong", "zeros", "no code for it"])  # fmt: skip
def test_a_rest_of_k_in_the_last_word(
    said: str, rest: str, mask: str, status: str, tried: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = SOURCE.replace("SAID", said).replace("REST", rest).replace("MASK", mask)
    _, found = check(tmp_path, source, capsys)
    assert isinstance(found, dict), found
    assert found["status"] == status, found["verdict"]
    assert any(trial["label"] == "words with a rest of K" for trial in found["trials"]) is tried
