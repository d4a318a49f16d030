"""Kernels that take the time model too long end with a message, and what they execute is cut short before that."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.explain.timing import sampled, shorter, whatif
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.explain.timing.timed import timed, to_json
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.sim.timing import device

H200 = gpu_named("H200")
NEVER_ENDS = """
__global__ void waits(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    while (((volatile const float*)A)[0] == 0.0f) {}
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    waits<<<dim3(N / 16, M / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


UNKNOWN_BYTES = """
extern size_t bytes_of(int);
__global__ void rows(const float* A, const float* B, float* C, int M, int N, int K) {
    extern __shared__ float row[];
    int i = blockIdx.y, j = blockIdx.x * 64 + threadIdx.x;
    for (int k = threadIdx.x; k < K; k += 64) row[k] = A[i * K + k];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += row[k] * B[k * N + j];
    C[i * N + j] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    rows<<<dim3(N / 64, M), 64, bytes_of(K)>>>(A, B, C, M, N, K);
}
"""


def test_unknown_bytes_of_shared_memory_give_no_time(tmp_path: Path) -> None:
    path = tmp_path / "rows.cu"
    path.write_text(UNKNOWN_BYTES, encoding="utf-8")
    spec, config = find_kernel(str(path), KernelOptions())
    found = timed(spec, config, spec.problem(64, 64, 64), H200)
    assert found.predicted is None
    assert "--smem" in found.missing
    spec, config = find_kernel(str(path), KernelOptions(smem="4*K"))
    assert timed(spec, config, spec.problem(64, 64, 64), H200).predicted is not None


def predictor(name: str, size: int) -> Predictor:
    spec = rung_named(name)
    return Predictor(spec, spec.config(), spec.problem(size, size, size), H200)


def test_more_instructions_than_there_is_time_for_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "_MOST_ISSUED", 2_000)
    spec = rung_named("shared_tile")
    found = timed(spec, spec.config(), spec.problem(64, 64, 64), H200)
    assert found.predicted is None
    assert "the blocks of one SM execute 0.0 million instructions for K = 64" in found.missing
    assert found.sentences == (f"No time is predicted: {found.missing}.",)
    assert to_json(found) == {"origin": "predicted", "us": None, "missing": found.missing}


def test_as_many_as_there_is_time_for_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = predictor("shared_tile", 64)
    (sample,) = made.samples
    monkeypatch.setattr(sampled, "_MOST_ISSUED", sampled.issued(sample))
    assert predictor("shared_tile", 64).predict(mhz=1980).us > 0
    monkeypatch.setattr(sampled, "_MOST_ISSUED", sampled.issued(sample) - 1)
    assert timed(made.spec, made.plan.kernel.config, made.problem, H200).predicted is None


def test_of_a_kernel_that_executes_very_much_a_shorter_k_is_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = predictor("shared_tile", 1024)
    assert usual._depths() == (192, 384)
    assert usual._tried is not None
    executed = sampled.issued(usual._tried)
    monkeypatch.setattr(shorter, "_MUCH", executed)
    assert usual._depths() == (192, 320)
    monkeypatch.setattr(shorter, "_TOO_MUCH", executed)
    assert usual._depths() == (64, 128)


def test_what_ifs_stop_when_they_have_run_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    made = predictor("shared_tile", 64)
    now = made.predict(mhz=1980)
    tried: list[str] = []
    once = whatif._without

    def counted(cost: whatif._Cost, *rest: object) -> whatif.WhatIf:
        tried.append(cost.name)
        return once(cost, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(whatif, "_without", counted)
    whatif.what_ifs(made, now)
    every = list(tried)
    assert len(every) > 2
    tried.clear()
    monkeypatch.setattr(whatif, "_MOST_ISSUED", 2 * now.outcome.issued)
    whatif.what_ifs(made, now)
    assert tried == every[:2]


def test_a_loop_that_never_ends_on_zeros_ends_with_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "waits.cu"
    file.write_text(NEVER_ENDS, encoding="utf-8")
    monkeypatch.setattr(device, "_LONGEST_S", 0.2)
    spec, config = find_kernel(str(file), KernelOptions())
    found = timed(spec, config, spec.problem(64, 64, 64), H200)
    assert found.predicted is None
    assert found.missing == "the kernel did not end in the time it was given: a loop may never end"
