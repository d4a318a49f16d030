"""Constants of classes do not stand for those of the file that have the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

CONFIG = "template <int SIDE_> struct Config { static constexpr int SIDE = SIDE_; };\n"
WIDE = "struct Wide { static constexpr int SIDE = 64; static int steps; };\n"
OWN = "constexpr int SIDE = 16;\n"
KERNEL = """
__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= m || j >= n) return;
    float sum = 0;
    for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
    c[i * n + j] = sum;
}
void run(const float* a, const float* b, float* c, int m, int n, int k) {
    product<<<dim3((n + SIDE - 1) / SIDE, (m + SIDE - 1) / SIDE), dim3(SIDE, SIDE)>>>(a, b, c, m, n, k);
}
"""


@pytest.mark.parametrize(
    "before",
    [CONFIG + OWN, WIDE + OWN, OWN + WIDE, CONFIG + WIDE + OWN],
    ids=["template", "class", "class after", "both"],
)
def test_the_file_s_own_constant_is_meant(before: str, tmp_path: Path) -> None:
    path = tmp_path / "product.cu"
    path.write_text(before + KERNEL)
    kernel = user_kernel(path, UserOptions())
    geometry = kernel.geometry(Problem(64, 128, 32), kernel.config())
    assert (geometry.grid, geometry.block) == ((8, 4, 1), (16, 16, 1))


@pytest.mark.parametrize("classes", [CONFIG, WIDE], ids=["template", "class"])
def test_also_across_files(classes: str, tmp_path: Path) -> None:
    (tmp_path / "configs.h").write_text(classes)
    (tmp_path / "sides.h").write_text(OWN)
    path = tmp_path / "product.cu"
    path.write_text('#include "configs.h"\n#include "sides.h"\n' + KERNEL)
    kernel = user_kernel(path, UserOptions())
    assert kernel.geometry(Problem(64, 128, 32), kernel.config()).block == (16, 16, 1)
