"""Grids written with numbers: which of them stand for M, N and K."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Dim3
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import found_values, user_kernel
from gemmsmith.userfile.launches.literal_extents import literal_extents, shown

KERNEL = """
#define TS 16
__host__ __device__ constexpr int tiles(int a, int b) { return (a + b - 1) / b; }
template <int T> __global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * T + threadIdx.x, row = blockIdx.y * T + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
"""
PRODUCT = Problem(80, 48, 32)


def grid(folder: Path, host: str, kernel: str = KERNEL) -> tuple[Dim3, str]:
    """The grid for 80 x 48 x 32, and what is said about it."""
    path = folder / "k.cu"
    path.write_text(f"{kernel}\nint main() {{ float *A, *B, *C;\n{host}\n}}\n", encoding="utf-8")
    spec = user_kernel(path, UserOptions())
    said = [str(value) for value in found_values(path, UserOptions()) if value.what.startswith("grid")]
    return spec.geometry(PRODUCT, Config(())).grid, "".join(said)


@pytest.mark.parametrize(
    "host",
    [
        "gemm<TS><<<dim3(tiles(1024, TS), tiles(2048, TS)), dim3(TS, TS)>>>(A, B, C, 2048, 1024, 512);",
        "const int m = 2048; gemm<TS><<<dim3((1024 + TS - 1) / TS, 2048 / TS), dim3(TS, TS)>>>(A, B, C, m, 1024, 512);",
        "const int m = 2048; dim3 g(1024 / TS, m / TS); gemm<TS><<<g, dim3(TS, TS)>>>(A, B, C, 2048, 1024, 2048);",
    ],
    ids=["numbers", "a named argument", "a named extent"],
)
def test_a_number_stands_for_the_extent_that_is_passed_with_that_value(tmp_path: Path, host: str) -> None:
    blocks, said = grid(tmp_path, host)
    assert blocks == (3, 5, 1)
    assert "grid (2048 taken as M, 1024 taken as N)" in said


def test_of_equal_extents_the_kernel_tells_which_is_which(tmp_path: Path) -> None:
    host = "gemm<TS><<<dim3(tiles(4096, TS), tiles(4096, TS)), dim3(TS, TS)>>>(A, B, C, 4096, 4096, 4096);"
    assert grid(tmp_path, host)[0] == (3, 5, 1)
    swapped = KERNEL.replace("blockIdx.x * T + threadIdx.x, row = blockIdx.y * T + threadIdx.y",
                             "blockIdx.y * T + threadIdx.y, row = blockIdx.x * T + threadIdx.x")  # fmt: skip
    blocks, said = grid(tmp_path, host, swapped)
    assert blocks == (5, 3, 1)
    assert "grid (4096 taken as M and N)" in said


def test_names_go_before_numbers(tmp_path: Path) -> None:
    """K is 64, and so is the tile."""
    wide = KERNEL.replace("#define TS 16", "#define TS 64")
    host = "int m = 2048, n = 1024; gemm<TS><<<dim3(n / 64 + 1, m / 64 + 1), dim3(64, 8)>>>(A, B, C, m, n, 64);"
    blocks, said = grid(tmp_path, host, wide)
    assert blocks == (1, 2, 1)
    assert "taken" not in said


def test_a_number_that_is_a_tile_by_chance_is_not_taken() -> None:
    """Of 4096 / 64 blocks for a K or an N of 64, more of which would be fewer blocks."""

    def blocks(meant: dict[int, int]) -> Dim3:
        rows, tile = meant.get(4096, 4096), meant.get(64, 64)
        return max(1, rows // tile), max(1, rows // tile), 1

    assert literal_extents({"M": 4096, "N": 4096, "K": 64}, blocks) == {4096: ("M", "N")}  # type: ignore[arg-type]
    assert literal_extents({"M": 4096, "N": 64, "K": 4096}, blocks) == {}  # type: ignore[arg-type]
    assert shown({4096: ("M", "N"), 512: ("K",)}) == "4096 taken as M and N, 512 taken as K"


def test_blocks_along_an_axis_that_no_extent_explains_are_not_taken() -> None:
    """A grid of 4096 / 16 by 128 fits one problem."""
    assert literal_extents({"M": 4096, "N": 2048}, lambda meant: (meant.get(4096, 4096) // 16, 128, 1)) == {}
    one_row = literal_extents({"M": 4096, "N": 2048}, lambda meant: (meant.get(4096, 4096) // 16, 1, 4))
    assert one_row == {4096: ("M",)}
