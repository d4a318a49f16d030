"""Kernels that a harness in a header launches, with a grid that it computes where its caller passes none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.kernel.geometry import Dim3
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, geometry_source, user_kernel
from gemmsmith.userfile.launches.user_launch import UserLaunch

PROBLEM = Problem(128, 256, 64)
KERNEL = """
__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= m || j >= n) return;
    float sum = 0;
    for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
    c[i * n + j] = sum;
}
"""
HARNESS = """
using Launched = void (*)(const float*, const float*, float*, int, int, int);
inline void timed(Launched kernel, const float* a, const float* b, float* c, int m, int n, int k, dim3 threads,
                  dim3 blocks = dim3(0, 0)) {
    if (blocks.x == 0 && blocks.y == 0)
        blocks = dim3((n + threads.x - 1) / threads.x, (m + threads.y - 1) / threads.y);
    kernel<<<blocks, threads>>>(a, b, c, m, n, k);
}
"""
MAIN = """
#include "harness.h"
#include "kernel.cuh"
int main() {
    int m = 512, n = 384, k = 256;
    float *a, *b, *c;
    timed(product, a, b, c, m, n, k, dim3(16, 16)GRID);
}
"""


@pytest.mark.parametrize(
    ("passed", "grid"),
    [("", (16, 8, 1)), (", dim3((m + 15) / 16, (n + 15) / 16)", (8, 16, 1)), (", dim3(0, 0, 1)", (16, 8, 1))],
    ids=["none", "by rows", "zero"],
)
def test_the_harness_computes_the_grid_that_is_not_passed(passed: str, grid: Dim3, tmp_path: Path) -> None:
    (tmp_path / "harness.h").write_text(HARNESS)
    (tmp_path / "main.cu").write_text(MAIN.replace("GRID", passed))
    path = tmp_path / "kernel.cuh"
    path.write_text(KERNEL)
    kernel = user_kernel(path, UserOptions())
    assert geometry_source(path, UserOptions(), PROBLEM) == "launch site"
    assert kernel.geometry(PROBLEM, kernel.config()).grid == grid


def test_each_file_passes_its_own_kernel_of_a_common_name(tmp_path: Path) -> None:
    (tmp_path / "harness.h").write_text(HARNESS)
    host = MAIN[MAIN.index("int main") :].replace("GRID", "")
    for name in ("first.cu", "second.cu"):
        (tmp_path / name).write_text(f'#include "harness.h"\n{KERNEL}{host}')
    launch = user_kernel(tmp_path / "first.cu", UserOptions()).geometry
    assert isinstance(launch, UserLaunch)
    assert launch.site is not None
    assert launch.namesake == ""


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("int count = 0; if (count == 0) count = 3;", 3),
        ("int count = 5; if (count == 0) count = 3;", 5),
        ("int count = 5; if (count > 4) { count = 7; } else { count = 9; }", 7),
    ],
)
def test_a_condition_asks_for_the_value_before_it(text: str, blocks: int, tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text("__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K)"
                    " { for (int i = blockIdx.x; i < M; i += gridDim.x) {} }\n"
                    "void run(float* A, float* B, float* C, int M, int N, int K) {"
                    f" {text} mine<<<count, 64>>>(A, B, C, M, N, K); }}")  # fmt: skip
    kernel = user_kernel(path, UserOptions())
    assert kernel.geometry(PROBLEM, kernel.config()).grid == (blocks, 1, 1)


def test_members_that_are_assigned_leave_the_grid_open(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(KERNEL + "void run(float* a, float* b, float* c, int m, int n, int k) {"
                    " dim3 blocks(1); blocks.y = 4; if (blocks.y == 1) blocks = dim3(7, 7);"
                    " product<<<blocks, dim3(16, 16)>>>(a, b, c, m, n, k); }")  # fmt: skip
    assert geometry_source(path, UserOptions(), PROBLEM) == "block launch site, grid guessed"
