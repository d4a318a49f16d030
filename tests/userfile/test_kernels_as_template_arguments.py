"""Launches through a parameter of a template: the kernel is what callers pass for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel

KERNEL = """
template <int BM, int BN>
__global__ void tile(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * BM + threadIdx.y, col = blockIdx.x * BN + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
"""
SIZES = "const float* A, const float* B, float* C, int M, int N, int K"
STYLES = {
    "auto": f"""
template <auto Kernel, int BM, int BN> void launch({SIZES}) {{
    Kernel<<<dim3((N + BN - 1) / BN, (M + BM - 1) / BM), dim3(BN, BM)>>>(A, B, C, M, N, K);
}}
void run({SIZES}) {{ launch<tile<8, 32>, 8, 32>(A, B, C, M, N, K); }}
""",
    "alias": f"""
using Gemm = void (*)({SIZES});
template <Gemm F> float timed({SIZES}) {{
    dim3 block(32, 8), grid((N + 31) / 32, (M + 7) / 8);
    F<<<grid, block>>>(A, B, C, M, N, K);
    return 0;
}}
void run({SIZES}) {{ timed<tile<8, 32>>(A, B, C, M, N, K); }}
""",
    "pointer": f"""
template <void (*kernel)(const float*, const float*, float*, int, int, int)>
void start(dim3 grid, dim3 block, {SIZES}) {{ kernel<<<grid, block>>>(A, B, C, M, N, K); }}
void run({SIZES}) {{
    constexpr int rows = 8, columns = 4 * rows;
    start<tile<rows, columns>>(dim3((N + columns - 1) / columns, (M + rows - 1) / rows), dim3(columns, rows), A, B, C,
                               M, N, K);
}}
""",
    "pack": f"""
template <auto Kernel, typename... Args> void go(dim3 grid, dim3 block, Args... args) {{
    Kernel<<<grid, block>>>(args...);
}}
void run({SIZES}) {{ go<&tile<8, 32>>(dim3((N + 31) / 32, (M + 7) / 8), dim3(32, 8), A, B, C, M, N, K); }}
""",
}


@pytest.mark.parametrize("style", STYLES)
def test_a_kernel_as_a_template_argument(style: str, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(KERNEL + STYLES[style], encoding="utf-8")
    spec = user_kernel(tmp_path / "k.cu", UserOptions())
    launch = spec.geometry(Problem(24, 96, 16), spec.config())
    assert (launch.grid, launch.block) == ((3, 3, 1), (32, 8, 1))
    assert not spec.geometry.guessed  # type: ignore[attr-defined]


def test_another_kernel_as_the_argument(tmp_path: Path) -> None:
    """The launcher tells nothing about a kernel that nobody passes to it."""
    other = KERNEL.replace("template <int BM, int BN>", "").replace("void tile(", "void mine(")
    other = other.replace("BM", "blockDim.y").replace("BN", "blockDim.x")
    (tmp_path / "k.cu").write_text(KERNEL + other + STYLES["auto"], encoding="utf-8")
    spec = user_kernel(tmp_path / "k.cu", UserOptions(entry="mine"))
    assert spec.geometry.guessed  # type: ignore[attr-defined]


# Two classes launch two kernels; one function template computes the grid and the block of whichever it is given.
POLICIES = f"""
__global__ void other({SIZES}) {{ C[blockIdx.x * blockDim.x + threadIdx.x] = A[0] * B[0]; }}
struct Small {{
    static constexpr int rows = 4, columns = 64;
    template <int Unused> static void start(dim3 grid, dim3 block, {SIZES}) {{
        other<<<grid, block>>>(A, B, C, M, N, K);
    }}
}};
struct Large {{
    static constexpr int rows = 8, columns = 32;
    template <int Unused> static void start(dim3 grid, dim3 block, {SIZES}) {{
        tile<rows, columns><<<grid, block>>>(A, B, C, M, N, K);
    }}
}};
template <typename Policy> void dispatch({SIZES}) {{
    dim3 block(Policy::columns, Policy::rows);
    dim3 grid((N + Policy::columns - 1) / Policy::columns, (M + Policy::rows - 1) / Policy::rows);
    Policy::template start<1>(grid, block, A, B, C, M, N, K);
}}
void small({SIZES}) {{ dispatch<Small>(A, B, C, M, N, K); }}
void large({SIZES}) {{ dispatch<Large>(A, B, C, M, N, K); }}
"""


@pytest.mark.parametrize(
    ("entry", "grid", "block"), [("tile", (3, 3, 1), (32, 8, 1)), ("other", (2, 6, 1), (64, 4, 1))]
)
def test_a_launch_in_the_class_that_a_template_is_given(
    entry: str, grid: tuple[int, ...], block: tuple[int, ...], tmp_path: Path
) -> None:
    (tmp_path / "k.cu").write_text(KERNEL + POLICIES, encoding="utf-8")
    spec = user_kernel(tmp_path / "k.cu", UserOptions(entry=entry))
    launch = spec.geometry(Problem(24, 96, 16), spec.config())
    assert (launch.grid, launch.block) == (grid, block)
    assert not spec.geometry.guessed  # type: ignore[attr-defined]
