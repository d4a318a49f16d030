"""gemmsmith check on a kernel that host code launches for one size alone: it is not called wrong for another."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import ONE_OUTPUT_A_THREAD, QUICK, check

# Right where N is a multiple of 512: the others have columns that no thread computes.
KERNEL = ONE_OUTPUT_A_THREAD.replace("float sum = 0.0f;", "if (col >= N / 512 * 512) return;\n    float sum = 0.0f;")
LAUNCH = """
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    if (CONDITION) mine<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def launched(condition: str) -> str:
    return KERNEL + LAUNCH.replace("CONDITION", condition)


def test_a_kernel_for_one_size_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, launched("M == 8192 && N == 4096 && K == 6144"), capsys, *QUICK)
    assert code == 2, found
    assert "for one size alone (`M == 8192 && N == 4096 && K == 6144`)" in found


@pytest.mark.parametrize("condition", ["M > 0 && N > 0", "M == 8192 && N > 10", "M == 64 || N == 64"])
def test_other_conditions_are_no_excuse(condition: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, launched(condition), capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found


WIDE_TILES = """
constexpr int TILE = 128;
__global__ void wide(const float* A, const float* B, float* C, int M, int N, int K) {
    for (int row = threadIdx.x / 16; row < TILE; row += 16)
        for (int col = threadIdx.x % 16; col < TILE; col += 16) {
            int i = blockIdx.y * TILE + row, j = blockIdx.x * TILE + col;
            float sum = 0;
            for (int n = 0; n < N; ++n) sum += A[i * N + n] * B[n * K + j];
            C[i * K + j] = sum;
        }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    wide<<<dim3(K / TILE, M / TILE), 256>>>(A, B, C, M, N, K);
}
"""


def test_a_grid_without_blocks_for_small_shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """K is the columns here, and the first shapes are smaller than a tile: larger ones are tried."""
    code, found = check(tmp_path, WIDE_TILES, capsys, "--trial", "random data")
    assert (code, found["status"]) in ((0, "right"), (0, "whole_tiles")), found
