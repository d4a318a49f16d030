"""gemmsmith check on kernels that choose between layouts by a number: every value of it is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

SIZES = ("--m", "16", "--n", "48", "--k", "24")
KERNEL = """
__global__ void multiply(MODES const float* A, int lda, const float* B, int ldb, float* C, int ldc, int M, int N,
                         int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k)
        sum += (ASK_A ? A[k * lda + row] : A[row * lda + k]) * (ASK_B ? B[col * ldb + k] : B[k * ldb + col]);
    C[row * ldc + col] = sum;
}
void run(MODES const float* A, int lda, const float* B, int ldb, float* C, int ldc, int M, int N, int K) {
    multiply<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(PASSED A, lda, B, ldb, C, ldc, M, N, K);
}
"""
STYLES = {
    "flags": (
        "bool transA, bool transB,",
        "transA",
        "transB",
        "transA, transB,",
        "with transA = 0, transB = 1: row-maj",
    ),
    "letters": ("char ta, char tb,", "ta == 'T'", "tb != 'N'", "ta, tb,", "with ta = 'T', tb = 'N': row-maj"),
    "bits": ("int order,", "(order & 1)", "(order & 2)", "order,", "with order = 2: row-maj"),
}


def _source(style: str) -> str:
    modes, ask_a, ask_b, passed, _ = STYLES[style]
    text = KERNEL.replace("MODES", modes).replace("ASK_A", ask_a).replace("ASK_B", ask_b)
    return text.replace("PASSED", passed)


@pytest.mark.parametrize("style", STYLES)
def test_every_value_is_judged(style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, _source(style), capsys, *SIZES)
    assert (code, found["status"]) == (0, "right"), found
    assert STYLES[style][-1] in str(found["found"]), found["found"]
    # The index, and the leading dimension, of a layout that the first values do not choose.
    for right, wrong in (("B[col * ldb + k]", "B[col * ldb + row]"), ("A[k * lda + row]", "A[k * ldb + row]")):
        code, found = check(tmp_path, _source(style).replace(right, wrong), capsys, *SIZES)
        assert (code, found["status"]) == (1, "wrong"), (wrong, found)


def test_a_value_that_is_not_supported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel that returns at once, or stops, for a value is not wrong."""
    for refused in ("if (transA && transB) return;", "if (transA && transB) __trap();"):
        source = _source("flags").replace("    float sum", f"    {refused}\n    float sum")
        code, found = check(tmp_path, source, capsys, *SIZES)
        assert (code, found["status"]) == (0, "right"), (refused, found)


def test_a_number_of_another_kind_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag that is no layout: it is judged with the value that gives a product."""
    source = _source("flags").replace("bool transB", "bool halve").replace("transB ?", "false ?").replace(
        "col] = sum", "col] = halve ? 0.5f * sum : sum").replace("transB,", "halve,")  # fmt: skip
    code, found = check(tmp_path, source, capsys, *SIZES)
    assert (code, found["status"]) == (0, "right"), found
    assert "halve is 0" in str(found["found"]), found["found"]
