"""Right kernels whose blocks take C's tiles in groups of rows, every second group backwards: the last block need not
compute C's last rows and columns, nor does it where an index has too few bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

SERPENTINE = """
#define T TILE
__global__ void serpentine(const float* A, const float* B, float* C, int M, int N, int K) {
    int down = (M + T - 1) / T, across = (N + T - 1) / T, each = GROUP * across;
    int group = blockIdx.x / each, first = group * GROUP, place = blockIdx.x % each;
    int rows = min(GROUP, down - first), c = place / rows;
    if (group & 1) c = across - 1 - c;
    int row = (first + place % rows) * T + threadIdx.y, col = c * T + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];
    C[(size_t)row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    serpentine<<<((M + T - 1) / T) * ((N + T - 1) / T), dim3(T, T)>>>(A, B, C, M, N, K);
}
"""


def serpentine(tile: int, group: int) -> str:
    return SERPENTINE.replace("TILE", str(tile)).replace("GROUP", str(group))


# The last group of the product with more than 2³¹ elements in C runs backwards. One shape of 2x3 tiles, and those of
# 7x1, 1x7 and 5x4, end in the corner all the same: in groups of 3 the first does, in groups of 2 all do.
@pytest.mark.parametrize(("tile", "group"), [(8, 3), (16, 2)])
def test_the_last_block_need_not_end_in_the_corner(
    tile: int, group: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, serpentine(tile, group), capsys)
    assert (code, found["status"]) == (0, "right"), found


def test_a_block_number_of_too_few_bits_is_still_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = serpentine(16, 1).replace("if (group & 1) c = across - 1 - c;", "")
    code, found = check(tmp_path, plain.replace("blockIdx.x %", "(blockIdx.x & 0xFFFFF) %"), capsys)
    assert code == 1, found
