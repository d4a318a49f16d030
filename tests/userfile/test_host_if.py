"""Values that ifs of host code change, also by what they were before."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.kernel.config import Config
from gemmsmith.problem import Problem
from gemmsmith.userfile.host.device_properties import ASSUMED_SMS
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel

KERNEL = """
__global__ void parts(const float* A, const float* B, float* C, int M, int N, int K, int chunk) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = blockIdx.z * chunk; k < min(K, (int)(blockIdx.z + 1) * chunk); ++k)
        sum += A[row * K + k] * B[k * N + col];
    atomicAdd(&C[row * N + col], sum);
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    int chunk = (K + 7) / 8;
    CHANGE
    parts<<<dim3((N + 7) / 8, (M + 7) / 8, (K + chunk - 1) / chunk), dim3(8, 8)>>>(A, B, C, M, N, K, chunk);
}
"""


@pytest.mark.parametrize(
    ("change", "chunk"),
    [
        ("", 25),
        ("if (chunk > 16) chunk = 16;", 16),
        ("if (chunk > 16) chunk = chunk / 4 * 4;", 24),
        ("if (chunk > 16) chunk /= 2;", 12),
        ("if (chunk > 16) chunk++; else --chunk;", 26),
        ("if (chunk > 26) chunk++; else { --chunk; }", 24),
        ("chunk++; --chunk; ++chunk;", 26),
        ("if (chunk > 16) { chunk = chunk + 1; chunk = chunk / 2; }", 13),
        ("if (chunk > 30) chunk = chunk * 3; else chunk += 7;", 32),
        ("if (chunk > 16) chunk = 16; if (chunk == 16) chunk = chunk - 8;", 8),
        ("if (chunk > 16) chunk = 16; if (chunk > 16) chunk = 4;", 16),
    ],
)
def test_a_variable_that_ifs_change(change: str, chunk: int, tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(KERNEL.replace("CHANGE", change))
    spec = user_kernel(file, UserOptions())
    assert spec.geometry(Problem(64, 64, 200), Config()).grid == (8, 8, -(-200 // chunk))
    assert not spec.geometry.misread  # type: ignore[attr-defined]


def test_a_change_by_a_condition_that_is_not_known(tmp_path: Path) -> None:
    """The value before it does not stand: the change is known, and may have been made."""
    file = tmp_path / "k.cu"
    file.write_text(KERNEL.replace("CHANGE", "if (prefers_small()) chunk = chunk / 2;"))
    assert user_kernel(file, UserOptions()).geometry.misread  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "grid"),
    [
        ("if (grid.x == 0) grid.x = 1;", (7, 7, 1)),
        ("if (grid.x == 7) grid.x = 9;", (9, 7, 1)),
        ("if (grid.x == 7) { grid.x++; grid.y *= 2; }", (8, 14, 1)),
        ("if (grid.x == 0) grid.x = 1; if (grid.y < 9) grid.y = 9;", (7, 9, 1)),
    ],
)
def test_an_axis_of_a_grid_that_ifs_change(change: str, grid: tuple[int, int, int], tmp_path: Path) -> None:
    """The grid was guessed, and a mistake of the launch was not seen."""
    file = tmp_path / "k.cu"
    launch = "parts<<<dim3((N + 7) / 8, (M + 7) / 8, (K + chunk - 1) / chunk), dim3(8, 8)>>>"
    rounded = f"dim3 grid((N + 4) / 8, (M + 4) / 8); {change} parts<<<grid, dim3(8, 8)>>>"
    file.write_text(KERNEL.replace("int chunk = (K + 7) / 8;\n    CHANGE", "int chunk = K;").replace(launch, rounded))
    geometry = user_kernel(file, UserOptions()).geometry
    assert geometry(Problem(59, 59, 200), Config()).grid == grid
    assert not geometry.misread  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["sms", "num_sms", "smCount", "multiprocessors"])
def test_a_number_of_sms_that_a_launcher_is_passed(name: str, tmp_path: Path) -> None:
    """The grid was guessed as one block for each tile, and blocks that take several were never run."""
    file = tmp_path / "k.cu"
    launch = "parts<<<dim3((N + 7) / 8, (M + 7) / 8, (K + chunk - 1) / chunk), dim3(8, 8)>>>"
    few = f"parts<<<dim3((N + 7) / 8, min((M + 7) / 8, {name})), dim3(8, 8)>>>"
    passed = KERNEL.replace("int M, int N, int K) {\n    int chunk = (K + 7) / 8;\n    CHANGE",
                            f"int M, int N, int K, int {name}) {{\n    int chunk = K;")  # fmt: skip
    file.write_text(passed.replace(launch, few))
    geometry = user_kernel(file, UserOptions()).geometry
    assert geometry(Problem(200, 64, 64), Config()).grid == (8, ASSUMED_SMS, 1)
    assert not geometry.misread  # type: ignore[attr-defined]
