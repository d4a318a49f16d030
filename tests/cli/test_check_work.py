"""How much work a check is: what it reads, parses and lowers once, and that no launch is made twice.

Seconds are measured elsewhere (benchmarks/simulator_speed.py); here work is counted, so that a slower machine is no
failure.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from done_once import _load_ptx

from gemmsmith.cli.main import run_command
from gemmsmith.sim import device as simulator
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.files import read_once
from gemmsmith.userfile.kernels import user_kernel
from gemmsmith.verify.trials.trial_runner import TrialRunner

# A tile in shared memory, for whole tiles only, with an assert: its text is a variable of the module.
KERNEL = """
#include <cassert>
template <int T> __global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[T][T], b[T][T];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    assert(blockDim.x == T);
    float sum = 0.0f;
    for (int k = 0; k < K; k += T) {
        a[y][x] = A[row * K + k + x];
        b[y][x] = B[(k + y) * N + col];
        __syncthreads();
        for (int i = 0; i < T; ++i) sum += a[y][i] * b[i][x];
        __syncthreads();
    }
    C[row * N + col] = sum;
}
void run(float* A, float* B, float* C, int M, int N, int K) {
    mine<16><<<dim3(N / 16, M / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("work") / "mine.cu"
    path.write_text(KERNEL, encoding="utf-8")
    done: dict[str, Any] = {"lowered": 0, "read": 0, "launched": Counter(), "grids": Counter()}
    lower, read, launched = simulator.lower, user_kernel._read_now, TrialRunner._launched
    grid, kept = user_kernel.UserLaunch._geometry, list[Any]()

    def count(what: str, function: Any) -> Any:
        def counted(*given: Any, **named: Any) -> Any:
            done[what] += 1
            return function(*given, **named)

        return counted

    def launch(self: TrialRunner, trial: Any, hazards: bool) -> Any:
        done["launched"][trial, hazards] += 1
        return launched(self, trial, hazards)

    def geometry(self: Any, problem: Any, config: Any) -> Any:
        kept.append(self)  # so that no other gets its id
        done["grids"][id(self), problem] += 1
        return grid(self, problem, config)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimDevice, "load_ptx", _load_ptx)  # tests share kernels; a user's process has none yet
        patch.setattr(simulator, "lower", count("lowered", lower))
        patch.setattr(user_kernel, "_read_now", count("read", read))
        patch.setattr(TrialRunner, "_launched", launch)
        patch.setattr(user_kernel.UserLaunch, "_geometry", geometry)
        done["code"] = run_command(["check", str(path), "--cures", "0"])
    return done


def test_code_is_lowered_once_for_trials_and_once_for_proofs(work: dict[str, Any]) -> None:
    assert work["code"] == 0
    assert len(work["launched"]) > 20
    assert work["lowered"] == 3  # some devices load the kernel twice: then its variables are at two places


def test_a_file_is_read_once(work: dict[str, Any]) -> None:
    assert work["read"] == 1


def test_no_launch_is_made_twice(work: dict[str, Any]) -> None:
    assert [key for key, times in work["launched"].items() if times > 1] == []


def test_a_grid_is_computed_once_for_each_problem(work: dict[str, Any]) -> None:
    assert max(work["grids"].values()) == 1


def test_files_are_read_anew_by_the_next_command(tmp_path: Path) -> None:
    reads = []

    def read() -> int:
        reads.append(0)
        return len(reads)

    assert [read_once.once("x", tmp_path, read) for _ in range(2)] == [1, 2]
    for expected in (3, 4):
        with read_once.files_read_once(), read_once.files_read_once():
            assert [read_once.once("x", tmp_path, read) for _ in range(2)] == [expected] * 2
