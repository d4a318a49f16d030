"""gemmsmith check FILE.cu:KERNEL, kernels behind conditions, launches of squares, and shapes that are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command

BODY = """(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
"""
TWO = f"""namespace ns {{ __global__ void first{BODY} }}
__global__ void second{BODY.replace("k < K", "k < K - 1")}
#ifdef USE_THIRD
__global__ void third{BODY}
#endif
void run(const float* A, const float* B, float* C, int M, int N, int K) {{
    ns::first<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
    second<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}}
"""
QUICK = ("--trial", "integers, bit for bit", "--cures", "0")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = run_command([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "two.cu").write_text(TWO, encoding="utf-8")
    return str(tmp_path / "two.cu")


@pytest.mark.parametrize(("named", "status"), [("first", "right"), ("ns::first", "right"), ("second", "wrong"),
                                               ("3", "right"), ("9", "wrong")])  # fmt: skip
def test_a_kernel_is_named_after_its_file_or_by_its_line(
    named: str, status: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = run(capsys, "check", f"{file}:{named}", *QUICK)
    assert found["status"] == status


@pytest.mark.parametrize(("words", "said"), [
    (("check", "{}:none"), "no __global__ function named 'none'"),
    (("check", "{}:first", "--entry", "second"), "name two kernels"),
    (("compare", "{}:first", "naive", "--x-launch", "entry=second"), "name a kernel each"),
])  # fmt: skip
def test_names_that_do_not_fit_are_refused(
    words: tuple[str, ...], said: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = run(capsys, *(word.format(file) for word in words))
    assert code == 2
    assert said in found["error"]["message"]


def test_other_commands_take_such_a_name(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    small = ("--m", "32", "--n", "32", "--k", "32")
    assert run(capsys, "profile", f"{file}:first", *small)[0] == 0
    code, found = run(capsys, "compare", f"{file}:first", f"{file}:second", *small)
    assert code == 0
    assert [found["checked"][side]["state"] for side in "xy"] == ["right", "wrong"]


def test_a_kernel_behind_a_condition_is_compiled_with_its_macro(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run(capsys, "check", f"{file}:third", *QUICK)
    assert (code, found["status"]) == (0, "right")
    assert "it is inside `#ifdef USE_THIRD` (two.cu:17), so it is compiled with -D USE_THIRD" in found["found"]
    code, found = run(capsys, "profile", f"{file}:third", "--m", "32", "--n", "32", "--k", "32")
    assert "is inside `#ifdef USE_THIRD`" in found["error"]["message"]
    assert found["error"]["hint"] == "add -D USE_THIRD"


SQUARES = """
template <int T> __global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float as[T][8], bs[8][T];
    int t = threadIdx.x, rows = blockIdx.y * T, cols = blockIdx.x * T, r = t / 16 * (T / 16), c = t % 16 * (T / 16);
    float s[T / 16][T / 16] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = t; i < T * 8; i += 256) as[i / 8][i % 8] = A[(rows + i / 8) * K + k0 + i % 8];
        for (int i = t; i < T * 8; i += 256) bs[i / T][i % T] = B[(k0 + i / T) * N + cols + i % T];
        __syncthreads();
        for (int k = 0; k < 8; ++k)
            for (int i = 0; i < T / 16; ++i)
                for (int j = 0; j < T / 16; ++j) s[i][j] += as[r + i][k] * bs[k][c + j];
        __syncthreads();
    }
    for (int i = 0; i < T / 16; ++i)
        for (int j = 0; j < T / 16; ++j) C[(rows + r + i) * N + cols + c + j] = s[i][j];
}
void run(const float* A, const float* B, float* C, int n) {
    const int side = 96;
    tiled<side><<<dim3((n + side - 1) / side, (n + side - 1) / side), 256>>>(A, B, C, n, n, n);
}
"""


@pytest.mark.parametrize(
    ("source", "status"), [(SQUARES, "right"), (SQUARES.replace("bs[k][c + j]", "bs[k][c]"), "wrong")]
)
def test_a_launch_of_squares_tells_the_tile_of_other_shapes(
    source: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text(source, encoding="utf-8")
    trial = ("--trial", "M, N and K all different" if status == "right" else "integers, bit for bit", "--cures", "0")
    _, found = run(capsys, "check", str(tmp_path / "k.cu"), *trial)
    assert found["status"] == status
    problem = found["trials"][0]["problem"]
    assert problem["m"] == 96
    assert problem["n"] % 96 == 0


def test_a_shape_that_is_given_counts_though_it_is_the_usual_one(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = run(capsys, "check", f"{file}:first", "--m", "128", "--n", "128", "--k", "128", *QUICK)
    assert [found["trials"][0]["problem"][extent] for extent in "mnk"] == [128, 128, 128]
