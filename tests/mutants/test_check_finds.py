"""What ``gemmsmith check`` reports for typical kernels: correct, without guards, with a race, not compiling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

# The textbook's tiled kernel, correct only for multiples of its tile.
TILED = """
#define TILE 16
__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        As[threadIdx.y][threadIdx.x] = A[row * K + k0 + threadIdx.x];
        Bs[threadIdx.y][threadIdx.x] = B[(k0 + threadIdx.y) * N + col];
        __syncthreads();  // loaded
        for (int k = 0; k < TILE; ++k) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();  // read
    }
    C[row * N + col] = acc;
}
"""
A_LOAD, B_LOAD = "A[row * K + k0 + threadIdx.x]", "B[(k0 + threadIdx.y) * N + col]"
GUARDED = (
    TILED.replace(A_LOAD, f"row < M && k0 + threadIdx.x < K ? {A_LOAD} : 0.0f")
    .replace(B_LOAD, f"k0 + threadIdx.y < K && col < N ? {B_LOAD} : 0.0f")
    .replace("C[row * N", "if (row < M && col < N) C[row * N")
)
RACING = GUARDED.replace("__syncthreads();  // read", "")
SIZE = ["--m", "32", "--n", "32", "--k", "32"]


def check(folder: Path, source: str, *options: str) -> int:
    path = folder / "mine.cu"
    path.write_text(source, encoding="utf-8")
    return run_command(["check", str(path), *SIZE, *options])


def line_of(source: str, text: str) -> int:
    return next(n for n, line in enumerate(source.splitlines(), 1) if text in line)


def flat(text: str) -> str:
    """The printed text without line breaks."""
    return " ".join(text.split())


def test_a_correct_kernel_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, GUARDED) == 0
    said = capsys.readouterr().out
    assert "WRONG" not in said
    assert "one warp always last" in said


def test_missing_guards_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, TILED) == 0
    said = flat(capsys.readouterr().out)
    assert "out-of-bounds: thread (" in said
    assert f"--> {tmp_path}/mine.cu:{line_of(TILED, A_LOAD)} " in said
    assert "ld.global" not in said
    assert "All 6 trials of 32x32x32 fp32 passed: multiples of the tile are right" in said
    assert "needs guards at the edges" in said
    assert f"repeat: gemmsmith check {tmp_path}/mine.cu --m 32 --n 32 --k 32 --trial 'a shape that is no" in said
    assert "right for whole tiles only" in said
    assert check(tmp_path, TILED, "--strict") == 1


def test_a_race_fails_although_the_result_is_correct(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, RACING) == 1
    said = flat(capsys.readouterr().out)
    assert "race: thread (" in said
    assert "overwrites it without waiting for that" in said
    read, write = line_of(RACING, "acc +="), line_of(RACING, "Bs[threadIdx.y][threadIdx.x] =")
    assert f"between line {read} and line {write} of the next iteration there must be a __syncthreads()" in said
    assert "the result is right in the order of this run" in said
    assert "not run after the failure: warps in order" in said


def test_json_reports_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, RACING, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert told["note"] == ""
    assert told["status"] == "racy"
    *passed, trial = told["trials"]
    assert all(each["ok"] for each in passed)
    assert trial["wrong"] == 0
    assert any("race on shared address" in reason for reason in trial["reasons"])


def test_a_compile_error_shows_the_compiler_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, TILED.replace("float acc = 0.0f;", "float acc = 0.0f")) == 2
    assert 'error: expected a ";"' in capsys.readouterr().err


def test_an_unknown_instruction_gives_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = 'asm volatile("discard.global.L2 [%0], 128;" :: "l"(C));'
    assert check(tmp_path, GUARDED.replace("float acc = 0.0f;", f"float acc = 0.0f;\n    {slow}")) == 2
    captured = capsys.readouterr()
    assert "the simulator does not know the PTX instruction 'discard.global.L2'" in captured.err
    assert "--device gpu" in captured.err
    assert "WRONG" not in captured.out


def test_the_repeat_command_contains_the_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, TILED, "--block", "16,16", "-D", "UNUSED=1") == 0
    assert "-DUNUSED=1 --block 16,16" in flat(capsys.readouterr().out)
