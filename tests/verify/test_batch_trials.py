"""Trials of several products: the far ones of a batch, strides of 16 bits, and offsets of 32."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gemmsmith.compile.compiler import compile_for
from gemmsmith.problem import Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.verify.code.edges import KernelEdges
from gemmsmith.verify.code.long_indices import means_beyond
from gemmsmith.verify.trials.batch_trials import batch_trials
from gemmsmith.verify.trials.far_trials import large_batches
from gemmsmith.verify.trials.trial import Trial, matrices_of
from gemmsmith.verify.trials.trial_runner import TrialRunner
from gemmsmith.verify.trials.trial_subject import Subject

_STRIDED = """__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K, STRIDE strideA,
                     STRIDE strideB, STRIDE strideC) {
    OFFSETS
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K, int batch) {
    mine<<<dim3((N + 7) / 8, (M + 7) / 8, batch), dim3(8, 8)>>>(A, B, C, M, N, K, M * K, K * N, M * N);
}
"""
_LOOP = """__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K, int batch) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    for (int z = blockIdx.z; z < batch; z += gridDim.z) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += A[(z * M + row) * K + k] * B[((z & MASK) * K + k) * N + col];
        C[(z * M + row) * N + col] = sum;
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K, int batch) {
    mine<<<dim3((N + 7) / 8, (M + 7) / 8, batch < 4 ? batch : 4), dim3(8, 8)>>>(A, B, C, M, N, K, batch);
}
"""
_INT = "int z = blockIdx.z; A += z * strideA; B += z * strideB; C += z * strideC;"
_LONG = _INT.replace("int z", "long long z")


def _subject(source: str, folder: Path) -> Subject:
    (folder / "mine.cu").write_text(source)
    spec = user_kernel(folder / "mine.cu", UserOptions())
    return Subject(spec, spec.config(), Problem(16, 16, 16), (8, 8), KernelEdges((4,)), c="set", samples=True)


def _failed(subject: Subject, trials: Iterable[Trial]) -> list[str]:
    compiled = compile_for(subject.spec, subject.config, subject.base, "sm_90")
    runner = TrialRunner(subject.spec, subject.config, compiled, lambda *_: SimDevice("sm_90"), lambda *_: compiled)
    return [trial.label for trial in trials if not runner.run(trial).trusted]


def _strided(offsets: str, stride: str = "int") -> str:
    return _STRIDED.replace("OFFSETS", offsets).replace("STRIDE", stride)


@pytest.mark.parametrize(("mask", "failed"), [("7", ["a batch of 65"]), ("0xffff", [])])
def test_products_beyond_the_eighth_in_a_loop(mask: str, failed: list[str], tmp_path: Path) -> None:
    subject = _subject(_LOOP.replace("MASK", mask), tmp_path)
    assert _failed(subject, batch_trials(subject)) == failed


@pytest.mark.parametrize(("source", "failed"), [
    (_strided(_LONG), []),
    (_strided(_LONG, "short"), ["a batch whose matrices are far apart"]),
    (_strided(_LONG.replace("z * strideB", "z * (unsigned short)strideB")), ["a batch whose matrices are far apart"]),
])  # fmt: skip
def test_strides_of_16_bits(source: str, failed: list[str], tmp_path: Path) -> None:
    subject = _subject(source, tmp_path)
    assert _failed(subject, batch_trials(subject)) == failed


@pytest.mark.parametrize(("source", "overflows", "meant"), [
    (_strided(_LONG), "", True),
    (_strided(_INT, "long long"), "", True),
    (_strided(_INT), "A of all products, B of all products and C of all products", False),
    (_strided(_LONG.replace("z * strideB", "(int)z * strideB")), "B of all products", True),
    (_strided(_INT.replace("z * strideC", "(int)(z * strideC)"), "long long"), "C of all products", True),
])  # fmt: skip
def test_offsets_of_32_bits(source: str, overflows: str, meant: bool, tmp_path: Path) -> None:
    """Int offsets are usual, and a limit; one of them in int beside others in 64 bits is a mistake."""
    subject = _subject(source, tmp_path)
    trials = list(large_batches(subject))
    failed = _failed(subject, trials)
    assert len(trials) == 3
    assert (matrices_of(failed) if failed else "") == overflows
    for trial in trials:
        assert means_beyond(subject.spec, trial.problem, trial.label) == meant, trial.label
