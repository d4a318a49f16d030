"""Products with scales of rows and columns: what the names say, and launches that no host code shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

KERNEL = """
#include <cstdint>
__global__ void product(const int8_t* A, const int8_t* B, const float* ROWS, const float* COLUMNS, float* C,
                        int M, int N, int K) {
    __shared__ int As[32][9], Bs[32][9];
    int tx = threadIdx.x % 32, ty = threadIdx.x / 32, sums[4] = {0, 0, 0, 0};
    PLACE
    for (int k0 = 0; k0 < K; k0 += 32) {
        int r = threadIdx.x / 8, w = threadIdx.x % 8;
        As[r][w] = row0 + r < M ? *(const int*)(A + (row0 + r) * K + k0 + w * 4) : 0;
        Bs[r][w] = col0 + r < N ? *(const int*)(B + (col0 + r) * K + k0 + w * 4) : 0;
        __syncthreads();
        for (int k = 0; k < 8; ++k)
            for (int i = 0; i < 4; ++i) sums[i] = __dp4a(As[ty + 8 * i][k], Bs[tx][k], sums[i]);
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        int row = row0 + ty + 8 * i, col = col0 + tx;
        if (row < M && col < N) C[row * N + col] = sums[i] * ROWS[row] * COLUMNS[INDEX];
    }
}
"""
ACROSS = "int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;"
HOST = """
void run(const int8_t* A, const int8_t* B, const float* r, const float* c, float* C, int M, int N, int K) {
    product<<<dim3((N + 31) / 32, (M + 31) / 32), 256>>>(A, B, r, c, C, M, N, K);
}
"""


def checked(folder: Path, rows: str, columns: str, place: str = ACROSS, index: str = "col", host: str = "") -> int:
    text = KERNEL.replace("ROWS", rows).replace("COLUMNS", columns).replace("PLACE", place).replace("INDEX", index)
    (folder / "k.cu").write_text(text + host)
    return run_command(["check", str(folder / "k.cu"), "--cures", "0", "--trial", "M, N and K all different"])


@pytest.mark.parametrize(("rows", "columns"), [("row_scale", "col_scale"), ("scale_m", "scale_n"), ("sr", "sc")])
def test_scales_named_after_rows_and_columns(tmp_path: Path, rows: str, columns: str) -> None:
    assert checked(tmp_path, rows, columns, host=HOST) == 0


@pytest.mark.parametrize(
    ("place", "grid"),
    [
        (ACROSS, "ceil(N/32),ceil(M/32)"),
        ("int row0 = blockIdx.x * 32, col0 = blockIdx.y * 32;", "ceil(M/32),ceil(N/32)"),
        ("int n = (N + 31) / 32, row0 = blockIdx.x / n * 32, col0 = blockIdx.x % n * 32;", "ceil(M/32)*ceil(N/32)"),
    ],
)
def test_the_launch_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, grid: str) -> None:
    assert checked(tmp_path, "row_scale", "col_scale", place) == 0
    assert f"its launch was found by trying: --grid '{grid}' --block 256" in capsys.readouterr().out


def test_a_kernel_under_a_launch_that_was_tried_is_not_called_wrong(tmp_path: Path) -> None:
    """It may have another launch."""
    assert checked(tmp_path, "row_scale", "col_scale", index="tx") == 2
