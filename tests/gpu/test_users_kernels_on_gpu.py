"""On a GPU: a user's C++ kernels, with namespaces, templates and several kernels in a file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gemmsmith
from gemmsmith.cli.main import run_command
from gemmsmith.run.cuda import gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]
needs_ncu = pytest.mark.skipif(shutil.which("ncu") is None, reason="needs Nsight Compute's ncu on PATH")

SOURCE = """#include <cstdio>
namespace ours {
__global__ void fill(float* x) { x[threadIdx.x] = 1.0f; }

template <int TILE, typename T>
__global__ void tiled(int M, int N, int K, T alpha, const T* A, const T* B, T beta, T* C) {
    __shared__ T as[TILE][TILE], bs[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    T sum = 0;
    for (int t = 0; t < K; t += TILE) {
        as[threadIdx.y][threadIdx.x] = row < M && t + threadIdx.x < K ? A[row * K + t + threadIdx.x] : T(0);
        bs[threadIdx.y][threadIdx.x] = t + threadIdx.y < K && col < N ? B[(t + threadIdx.y) * N + col] : T(0);
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = beta == T(0) ? alpha * sum : alpha * sum + beta * C[row * N + col];
}
}  // namespace ours

void run(int M, int N, int K, float* a, float* b, float* c) {
    dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);
    ours::tiled<16, float><<<grid, block>>>(M, N, K, 1.0f, a, b, 0.0f, c);
}
"""
SIZE = ["--m", "256", "--n", "256", "--k", "256"]


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "mine.cu").write_text(SOURCE, encoding="utf-8")
    return str(tmp_path / "mine.cu")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    code = run_command([*words, "--json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    return json.loads(said.out)


def test_check(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "check", file, "--device", "gpu")
    assert (found["status"], found["entry"]) == ("right", "ours::tiled<16, float>")


@needs_ncu
def test_profile_has_the_counts_of_the_simulator(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    measured = printed(capsys, "profile", file, *SIZE, "--device", "gpu")
    simulated = printed(capsys, "profile", file, *SIZE, "--device", "sim", "--full", "--arch", "sm_90")
    name = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    assert measured["metrics"][name] == simulated["metrics"][name]


@needs_ncu
def test_lines(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "profile", file, *SIZE, "--device", "gpu", "--lines")["lines"]
    assert {"mine.cu"} <= {line["file"] for line in lines}


@needs_ncu
def test_compare(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "compare", file, "naive", *SIZE, "--device", "gpu")


def test_timeline_shows_the_name_as_written(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["timeline", "--json", "--", "run", file, *SIZE, "--device", "gpu"]) == 0
    assert "ours::tiled<16, float>" in capsys.readouterr().out


def test_launch_is_the_same_on_both_devices(file: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((32, 48)).astype("f4"), rng.standard_normal((48, 64)).astype("f4")
    c = np.zeros((32, 64), "f4")
    found = [
        gemmsmith.launch(file, "ours::tiled<16, float>", grid=(4, 2), block=(16, 16), device=device,
                         args=[32, 64, 48, 1.0, a, b, 0.0, c]).by_name["C"]
        for device in ("sim", "gpu")
    ]  # fmt: skip
    assert np.array_equal(found[0], found[1])
    assert np.allclose(found[0], a @ b, atol=1e-4)
