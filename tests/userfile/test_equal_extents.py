"""The tile of a launch that passes one value for M, N and K."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gemmsmith.kernel.geometry import Dim3
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.userfile.launches.equal_extents import tile_grid

KERNEL = """
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int X = blockIdx.x, Y = blockIdx.y;
    ROWS
    C[(rows + threadIdx.x / 16) * N + cols + threadIdx.x % 16] = A[0] * B[0] * K;
}
void run(const float* a, const float* b, float* c, int M, int n) {
    k<<<dim3((n + 63) / 64, (SIDE + 127) / 128), 256>>>(a, b, c, PASSED);
}
"""
DOWN = "int rows = blockIdx.y * 128, cols = blockIdx.x * 64;"
ALONG = "int rows = blockIdx.x * 64, cols = blockIdx.y * 128;"


def up(side: int, tile: int) -> int:
    return -(-side // tile)


@pytest.mark.parametrize(("grid", "along_columns", "along_rows"), [
    (lambda n: (up(n, 64), up(n, 128), 1), (3, 5, 1), (10, 2, 1)),
    (lambda n: (n // 64, n // 128, 1), (3, 5, 1), (10, 2, 1)),
    (lambda n: (up(n, 96) * up(n, 96), 1, 1), (14, 1, 1), (14, 1, 1)),
    (lambda n: (up(n * n, 256), 1, 1), (480, 1, 1), (480, 1, 1)),
    (lambda n: (up(n, 32), 1, 4), (6, 1, 4), (20, 1, 4)),
])  # fmt: skip
def test_blocks_of_squares_tell_the_tile(grid: Callable[[int], Dim3], along_columns: Dim3, along_rows: Dim3) -> None:
    found = tile_grid(grid)
    assert found is not None
    assert (found(640, 192, False), found(640, 192, True)) == (along_columns, along_rows)


@pytest.mark.parametrize("grid", [
    lambda n: (up(n, 64), up(n, 64), up(n, 64)),  # K is divided, too
    lambda n: (7, 1, 1),  # noqa: ARG005 (fits one problem)
    lambda n: (up(n, 64) + 3, 1, 1),
])  # fmt: skip
def test_what_no_tile_explains_stays_open(grid: Callable[[int], Dim3]) -> None:
    assert tile_grid(grid) is None


@pytest.mark.parametrize(("rows", "passed", "side", "expected"), [
    (DOWN, "n, n, n", "n", (3, 5, 1)),
    (ALONG, "n, n, n", "n", (10, 2, 1)),
    (DOWN, "M, n, n", "M", (3, 5, 1)),  # the grid tells M and N apart, and is not asked for K
])  # fmt: skip
def test_other_shapes_get_the_blocks_that_host_code_gives_to_squares(
    rows: str, passed: str, side: str, expected: Dim3, tmp_path: Path
) -> None:
    file = tmp_path / "k.cu"
    file.write_text(KERNEL.replace("ROWS", rows).replace("PASSED", passed).replace("SIDE", side), encoding="utf-8")
    spec = user_kernel(file, UserOptions())
    assert spec.geometry(Problem(640, 192, 64), spec.config()).grid == expected
    assert spec.geometry(Problem(640, 640, 640), spec.config()).grid == (10, 5, 1)


ADDS = """
__global__ void adds(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y, col = threadIdx.x;
    atomicAdd(&C[row * N + col], A[row * K + blockIdx.z] * B[blockIdx.z * N + col]);
}
void run(const float* A, const float* B, float* out, int M, int N, int K) {
    ZERO
    adds<<<dim3(1, M, K), N>>>(A, B, out, M, N, K);
}
"""


@pytest.mark.parametrize(("line", "zeroed"), [
    ("cudaMemsetAsync(out, 0, sizeof(float) * M * N);", True), ("cudaMemset((void*)out, 0, 4 * M * N);", True),
    ("cudaMemset(other, 0, 4 * M * N);", False), ("cudaMemset(out, 1, 4 * M * N);", False), ("", False),
])  # fmt: skip
def test_a_result_that_host_code_sets_to_zero(line: str, zeroed: bool, tmp_path: Path) -> None:
    path = tmp_path / "adds.cu"
    path.write_text(ADDS.replace("ZERO", line), encoding="utf-8")
    assert user_kernel(path, UserOptions()).geometry.zeroes_output is zeroed  # type: ignore[attr-defined]


COLUMNS = """
__global__ void by_columns(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 64 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    for (int r = row; r < blockIdx.y * 64 + 64; r += 8) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[r + k * M] * B[k + col * K];
        C[r + col * M] = sum;
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    by_columns<<<dim3(N / 32, M / 64), dim3(32, 8)>>>(A, B, C, M, N, K);
}
"""


def test_the_grid_of_a_column_major_kernel_is_asked_for_with_its_own_extents(tmp_path: Path) -> None:
    """A whole tile of 64 x 32 has a launch; the problem has M and N exchanged."""
    path = tmp_path / "columns.cu"
    path.write_text(COLUMNS, encoding="utf-8")
    spec = user_kernel(path, UserOptions(layout="col"))
    launch = spec.geometry
    assert launch.sources(spec.problem(64, 32, 16)) == ("launch site", "launch site")  # type: ignore[attr-defined]
    assert launch.sources(spec.problem(32, 64, 16)) == ("launch site", "guessed")  # type: ignore[attr-defined]
