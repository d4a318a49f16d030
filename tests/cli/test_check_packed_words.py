"""gemmsmith check on kernels that take four bytes of A and B as one integer, for dp4a."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

DOT = """
#include <cstdint>
__global__ void dot4(const WORD* A, const WORD* B, int* C, int M, int N, int DEPTH) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col GUARD N) return;
    int sum = 0;
    for (int w = 0; w < WORDS; ++w) sum = __dp4a(A[row * (WORDS) + w], B[col * (WORDS) + w], sum);
    C[row * N + col] = sum;
}
void run(const WORD* A, const WORD* B, int* C, int M, int N, int K) {
    dot4<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, PASSED);
}
"""


@pytest.mark.parametrize(("depth", "words", "passed"), [("K", "K / 4", "K"), ("K4", "K4", "K / 4")])
@pytest.mark.parametrize(("guard", "status"), [(">=", "right"), (">", "wrong")])
def test_words_along_k(
    depth: str, words: str, passed: str, guard: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = DOT.replace("DEPTH", depth).replace("WORDS", words).replace("PASSED", passed).replace("GUARD", guard)
    code, found = check(tmp_path, text.replace("WORD", "int32_t"), capsys)
    assert (code, found["status"]) == (status == "wrong", status), found
