"""On a GPU: sweeps with times, against a baseline, recorded. Run with ``pytest -m gpu tests/gpu``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.run.cuda import gpu_available
from gemmsmith.store.database import Results

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]


def sweep(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    got = run_command(["sweep", *arguments, "--device", "gpu", "--json"])
    seen = capsys.readouterr()
    assert got == code, seen
    facts: dict[str, Any] = json.loads(seen.out)
    return facts


def test_points_are_timed_against_cublas_and_recorded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    database = tmp_path / "results.db"
    facts = sweep(capsys, "padded", "--vary", "PAD=0,4,5", "--shapes", "1024", "--against", "cublas", "--db",
                  str(database), "--plot", str(tmp_path / "sweep.svg"))  # fmt: skip
    *timed, illegal = facts["points"]
    assert facts["origin"] == "measured"
    assert illegal["state"] == "illegal"
    for point in timed:
        assert point["state"] == "ok"
        assert point["values"]["tflops"] > 0
        assert point["values"]["registers"] > 0
        assert point["measurement"]["identity"]["name"] == "padded"
        assert [ratio["baseline"] for ratio in point["measurement"]["ratios"]] == ["cublas"]
    assert (tmp_path / "sweep.svg").read_text().startswith("<svg ")
    with Results.open(database, read_only=True) as results:
        (run,) = results.runs()
    assert sorted(m.identity.name for m in run.measurements) == ["cublas", "padded", "padded"]
    assert run.machine.gpu


def test_waves_and_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    facts = sweep(capsys, "warp_tile", "--vary", "WAVES=1,1.05", "--shapes", "64x64x512", "--no-db")
    full, more = (point["values"] for point in facts["points"])
    assert full["waves"] == 1
    assert 1 < more["waves"] < 1.2
    assert all(point["state"] == "ok" for point in facts["points"])
    sizes = sweep(capsys, "coalesced", "--vary", "SIZE=64,256,1000", "--no-db")
    assert [point["state"] for point in sizes["points"]] == ["ok", "ok", "ok"]


def test_a_wrong_point_of_a_file_is_wrong_and_the_others_are_timed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.cu"
    file.write_text("""
#ifndef SKIP
#define SKIP 0
#endif
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = SKIP; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
""")
    facts = sweep(capsys, str(file), "--vary", "SKIP=0,1", "--shapes", "256", "--block", "16,16", "--no-db", code=1)
    assert [point["state"] for point in facts["points"]] == ["ok", "wrong"]
    assert facts["points"][0]["measurement"]["identity"]["config"] == "SKIP=0"
