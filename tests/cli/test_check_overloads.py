"""gemmsmith check of kernels that share a name: each is judged, with its own launch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.entry_words import split_entry
from gemmsmith.cli.main import run_command
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

SOURCE = """#include <cuda_fp16.h>
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
__global__ void mine(const half* A, const half* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = FIRST; k < K; ++k) sum += __half2float(A[row * K + k]) * __half2float(B[k * N + col]);
    C[row * N + col] = sum;
}
void run(const float* a, const float* b, const half* p, const half* q, float* c, int M, int N, int K) {
    mine<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(a, b, c, M, N, K);
    mine<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(p, q, c, M, N, K);
}
"""


def _file(tmp_path: Path, first: int = 0) -> Path:
    file = tmp_path / "k.cu"
    file.write_text(SOURCE.replace("FIRST", str(first)), encoding="utf-8")
    return file


@pytest.mark.parametrize(("entry", "dtype", "tile"), [("mine:2", "fp32", 16), ("mine:9", "fp16", 8)])
def test_each_overload_has_its_own_launch(entry: str, dtype: str, tile: int, tmp_path: Path) -> None:
    spec = user_kernel(_file(tmp_path), UserOptions(entry=entry))
    geometry = spec.geometry(spec.problem(64, 32, 16), spec.config({}))
    assert [str(each) for each in spec.dtypes] == [dtype]
    assert (geometry.grid, geometry.block) == ((32 // tile, 64 // tile, 1), (tile, tile, 1))


def test_a_line_names_the_overload_there(tmp_path: Path) -> None:
    file = _file(tmp_path)
    assert split_entry(f"{file}:11") == (str(file), "mine:9")
    assert split_entry(f"{file}:mine:9") == (str(file), "mine:9")


@pytest.mark.parametrize("entry", [(), ("--entry", "mine")])
def test_a_wrong_overload_is_found(entry: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first one is right, which is no verdict on the second."""
    words = ["--json", "--cures", "0", "--trial", "random data"]
    assert run_command(["check", str(_file(tmp_path, first=1)), *entry, *words]) == 1
    found = {kernel["entry"]: kernel["status"] for kernel in json.loads(capsys.readouterr().out)["kernels"]}
    assert found == {"mine:2": "right", "mine:9": "wrong"}


def test_other_commands_ask_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["profile", str(_file(tmp_path)), "--entry", "mine"]) == 2
    assert "--entry mine:9" in " ".join(capsys.readouterr().err.split())
