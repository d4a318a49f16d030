"""Each status of ``gemmsmith check``, its exit code, and its identifier in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.run.cuda import gpu_available

KERNEL = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    GUARD
    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += A[IN_A] * B[IN_B];
    C[IN_C] = acc;
}
// gemmsmith: block=16,16 grid=ceil(N/16),ceil(M/16)
"""


def kernel(guard: str = "if (row >= M || col >= N) return;", a: str = "(size_t)row * K + k",
           b: str = "(size_t)k * N + col", c: str = "(size_t)row * N + col") -> str:  # fmt: skip
    return KERNEL.replace("GUARD", guard).replace("IN_A", a).replace("IN_B", b).replace("IN_C", c)


RACY = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float row[256];
    int col = blockIdx.x * 64 + threadIdx.x;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k) {
        if (threadIdx.x == 0) row[k % 256] = A[(size_t)blockIdx.y * K + k];
        __syncwarp();
        if (k % 32 == 31) __syncthreads();
        if (col < N) acc += row[k % 256] * B[(size_t)k * N + col];
    }
    if (col < N) C[(size_t)blockIdx.y * N + col] = acc;
}
// gemmsmith: block=64 grid=ceil(N/64),M
"""
STATUSES = {
    "right": (kernel(), 0, 0),
    "whole_tiles": (kernel(guard=""), 0, 1),
    "square_only": (kernel(c="(size_t)row * M + col"), 0, 1),
    "column_major": (kernel(a="row + (size_t)k * M", b="k + (size_t)col * K", c="row + (size_t)col * M"), 0, 0),
    "wrong": (kernel(a="(size_t)row * K + (k ? k : 1)"), 1, 1),
}


def check(folder: Path, source: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    path = folder / "mine.cu"
    path.write_text(source, encoding="utf-8")
    code = run_command(["check", str(path), "--json", *words])
    told: dict[str, object] = json.loads(capsys.readouterr().out)
    return code, told


@pytest.mark.parametrize("status", STATUSES)
def test_status(status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, plain, strict = STATUSES[status]
    for words, expected in (((), plain), (("--strict",), strict)):
        code, told = check(tmp_path, source, capsys, *words)
        assert told["status"] == status
        assert code == expected
    if plain != strict:
        assert told["warnings"] or not told["ok"]


def test_whole_tiles_say_which_multiples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, told = check(tmp_path, kernel(guard=""), capsys)
    assert told["multiples"] == {"m": 16, "n": 16, "k": 1}
    assert "multiples of 16 in M, 16 in N; elsewhere it accesses memory outside its matrices" in str(told["verdict"])


def test_a_race_with_the_right_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = check(tmp_path, RACY, capsys)
    assert code == 1
    assert told["status"] in ("racy", "wrong")
    assert "races" in str(told["verdict"])


def test_a_kernel_that_does_not_compile_is_not_runnable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = check(tmp_path, kernel(guard="nonsense"), capsys)
    assert code == 2
    assert told["status"] == "not_runnable"


@pytest.mark.skipif(gpu_available(), reason="this machine has a GPU")
def test_a_missing_device_has_a_code_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = check(tmp_path, kernel(), capsys, "--device", "gpu")
    assert code == 3
    assert told["status"] == "not_runnable"


def test_the_budget_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(kernel(), encoding="utf-8")
    assert run_command(["check", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "of 15 s; gemmsmith verify --full runs" in said
    assert "trials chosen for this kernel: data" in said
