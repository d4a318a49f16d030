"""Threads that have several rows or columns each and compare the first alone with the extent: where host code has
blocks for any extent, the others are computed outside the matrices. A comment that asks for multiples allows that."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

KERNEL = """
COMMENT
__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = (blockIdx.y * 8 + threadIdx.y) * ROWS, col = (blockIdx.x * 32 + threadIdx.x) * COLUMNS;
    if (row >= M || col >= N) return;
    float sum[ROWS][COLUMNS] = {};
    for (int k = 0; k < K; ++k)
        for (int i = 0; i < ROWS; ++i)
            for (int j = 0; j < COLUMNS; ++j) sum[i][j] += A[(row + i) * K + k] * B[k * N + col + j];
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < COLUMNS; ++j) C[(row + i) * N + col + j] = sum[i][j];
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 grid((N + 32 * COLUMNS - 1) / (32 * COLUMNS), (M + 8 * ROWS - 1) / (8 * ROWS));
    sgemm<<<grid, dim3(32, 8)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(
    ("rows", "columns", "comment", "status"),
    [
        (4, 1, "", "wrong"),
        (8, 1, "", "wrong"),
        (1, 4, "", "wrong"),
        (8, 1, "// M must be a multiple of 8", "whole_tiles"),
        (4, 1, "// requires M to be a multiple of what a thread has", "whole_tiles"),
        (4, 1, "// K is a multiple of 4", "wrong"),
    ],
)
def test_the_first_row_alone_is_compared(
    rows: int, columns: int, comment: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = KERNEL.replace("COMMENT", comment).replace("COLUMNS", str(columns)).replace("ROWS", str(rows))
    code, found = check(tmp_path, text, capsys)
    assert (code, found["status"]) == (status == "wrong", status), found
