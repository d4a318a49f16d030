"""A launch that is not understood, or not there: what a guess in its place may do wrong is no verdict on the kernel."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from checking import check

from gemmsmith.cli.guessed_launch import refuse_guessed_grid, refuse_mere_guess
from gemmsmith.cli.render.check_report import Report
from gemmsmith.errors import UsageError
from gemmsmith.problem import Problem


def _report(misread: str, mere: bool = False, text: str = "", **verdict: Any) -> Report:
    problem = Problem(223, 23, 1)
    failed = {"problem": problem, "unwritten": 0, "wrong": 0, "total": 5129, "faulted": False, "hazards": (),
              "reasons": (), "faults": (), "damage": ()} | verdict  # fmt: skip
    launch = SimpleNamespace(misread=misread, is_mere_guess=mere, facts=SimpleNamespace(reached=text))
    found = SimpleNamespace(
        spec=SimpleNamespace(geometry=launch), entry="mine", own=str,
        failed=[(SimpleNamespace(label="many rows of tiles"), SimpleNamespace(**failed))],
        only_warns=lambda *_: False,
    )  # fmt: skip
    return cast("Report", found)


def test_outputs_that_a_guess_leaves_out() -> None:
    with pytest.raises(UsageError, match=r"the launch at mine.cu:42 is not understood.*2185 of the 5129 outputs"):
        refuse_guessed_grid(_report("mine.cu:42", unwritten=2185, wrong=2185))


@pytest.mark.parametrize(
    ("misread", "verdict"),
    [
        ("", {"unwritten": 2185, "wrong": 2185}),  # host code says so
        ("mine.cu:42", {"wrong": 7}),
        ("mine.cu:42", {"unwritten": 5, "wrong": 12}),
        ("mine.cu:42", {"unwritten": 5, "faulted": True}),
    ],
)
def test_other_failures_are_the_kernel_s(misread: str, verdict: dict[str, Any]) -> None:
    refuse_guessed_grid(_report(misread, **verdict))


@pytest.mark.parametrize(
    "verdict",
    [{"unwritten": 9, "wrong": 9}, {"faulted": True}, {"faults": ("one",)}, {"reasons": ("a race on global memory",)}],
)
def test_what_another_launch_may_not_do(verdict: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"no host code launches it.*the guess may be at fault"):
        refuse_mere_guess(_report("", mere=True, **verdict))
    refuse_mere_guess(_report("", **verdict))


def test_wrong_numbers_are_the_kernel_s() -> None:
    refuse_mere_guess(_report("", mere=True, wrong=7))
    refuse_mere_guess(_report("", mere=True, text="i += blockDim.x", reasons=("a race on shared memory",)))
    refuse_mere_guess(_report("", mere=True, text="i += gridDim.x", unwritten=9, wrong=9))


UNUSUAL = """
constexpr int ROWS = 24, COLUMNS = 12;  // of 96 threads, three columns each
__global__ void tall(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float part[8][ROWS];
    int r = threadIdx.x / 4, c = threadIdx.x % 4 * 3, row = blockIdx.y * ROWS, col = blockIdx.x * COLUMNS;
    float sum[3] = {};
    for (int first = 0; first < K; first += 8) {
        for (int i = threadIdx.x; i < 8 * ROWS; i += 96)
            part[i % 8][i / 8] = row + i / 8 < M && first + i % 8 < K ? A[(row + i / 8) * K + first + i % 8] : 0;
        __syncthreads();
        for (int k = 0; k < 8 && first + k < K; ++k)
            for (int j = 0; j < 3; ++j)
                if (col + c + j < N) sum[j] += part[k][r] * B[(first + k) * N + col + c + j];
        __syncthreads();
    }
    for (int j = 0; j < 3; ++j)
        if (row + r < M && col + c + j < N) C[(row + r) * N + col + c + j] = sum[j];
}
"""

UNTOLD = UNUSUAL.replace(
    "int i = threadIdx.x; i < 8 * ROWS; i += 96", "int n = 0, i = threadIdx.x; n < 2; ++n, i += 96"
)


def test_a_loop_from_thread_to_thread_tells_the_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, UNUSUAL, capsys, "--trial", "random data")
    assert (code, found["status"], found["launch"]["block"]) == (0, "right", [96, 1, 1])
    assert found["found"] == ["its launch was found by trying: --grid 'ceil(N/12),ceil(M/24)' --block 96"]


def test_a_kernel_of_unusual_threads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = check(tmp_path, UNTOLD, capsys)
    assert code == 2
    assert "if the kernel is right, give its launch" in error
    code, found = check(tmp_path, UNTOLD, capsys, "--grid", "ceil(N/12),ceil(M/24)", "--block", "96",
                        "--trial", "random data")  # fmt: skip
    assert (code, found["status"]) == (0, "right")


SIXTEEN = """
constexpr int SIDE = 64, DEEP = 8, EACH = 4;  // of 16 x 16 threads
__global__ void tiled_gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[DEEP][SIDE + 64], b[DEEP][SIDE + 64];
    int id = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    int top = blockIdx.y * SIDE, left = blockIdx.x * SIDE;
    float sum[EACH][EACH] = {};
    for (int first = 0; first < K; first += DEEP) {
        for (int i = id; i < DEEP * SIDE; i += threads) {
            int k = i % DEEP, side = i / DEEP;
            a[k][side] = top + side < M && first + k < K ? A[(top + side) * K + first + k] : 0.f;
            b[k][side] = left + side < N && first + k < K ? B[(first + k) * N + left + side] : 0.f;
        }
        __syncthreads();
        for (int k = 0; k < DEEP; ++k)
            for (int i = 0; i < EACH; ++i)
                for (int j = 0; j < EACH; ++j) sum[i][j] += a[k][threadIdx.y * EACH + i] * b[k][threadIdx.x * EACH + j];
        __syncthreads();
    }
    for (int i = 0; i < EACH; ++i)
        for (int j = 0; j < EACH; ++j) {
            int y = threadIdx.y * EACH + i, x = threadIdx.x * EACH + j;
            if (y < SIDE && x < SIDE && top + y < M && left + x < N) C[(top + y) * N + left + x] = sum[i][j];
        }
}
"""


def test_a_block_whose_threads_read_what_none_wrote_is_no_launch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """32 x 32 threads, the first guess, give a product: half of them read columns that are not filled, and store
    nothing."""
    _, found = check(tmp_path, SIXTEEN, capsys, "--trial", "random data")
    assert found["launch"]["block"] == [16, 16, 1], found
