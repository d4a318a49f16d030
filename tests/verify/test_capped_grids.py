"""Host code that limits its grid: blocks must take several tiles of a product beyond the limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.compile.compiler import compile_for
from gemmsmith.problem import Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.verify.code.edges import KernelEdges
from gemmsmith.verify.trials.capped_grids import capped_grids
from gemmsmith.verify.trials.trial_runner import TrialRunner
from gemmsmith.verify.trials.trial_subject import Subject

_FLAT = """__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    for (long i = blockIdx.x * 128L + threadIdx.x; i < (long)M * N; i += gridDim.x * 128L) {
        long row = i / N, col = i % N;
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        C[i] = sum;
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    long blocks = ((long)M * N + 127) / 128;
    mine<<<blocks < LIMIT ? blocks : LIMIT, 128>>>(A, B, C, M, N, K);
}
"""


def subject(source: str, folder: Path) -> Subject:
    file = folder / "mine.cu"
    file.write_text(source)
    spec = user_kernel(file, UserOptions())
    return Subject(spec, spec.config(), Problem(64, 64, 64), (16, 16), KernelEdges((4,)))


@pytest.mark.parametrize("takes_all", [True, False])
def test_one_block_writes_its_share_beyond_the_limit(takes_all: bool, tmp_path: Path) -> None:
    source = _FLAT.replace("LIMIT", "4096")
    source = source if takes_all else source.replace("; i += gridDim.x * 128L", "; i += 1L << 40")
    own = subject(source, tmp_path)
    trials = list(capped_grids(own))
    assert ["4096 blocks" in trial.label for trial in trials] == [True, True]
    compiled = compile_for(own.spec, own.config, own.base, "sm_90")
    runner = TrialRunner(own.spec, own.config, compiled, lambda *_: SimDevice("sm_90"), lambda *_: compiled)
    verdict = runner.run(trials[0])
    assert verdict.trusted == takes_all, verdict.reasons
    assert takes_all or "wrote 128 outputs" in verdict.reasons[0]


def test_no_trial_without_a_limit(tmp_path: Path) -> None:
    assert not list(capped_grids(subject(_FLAT.replace("LIMIT", "(1L << 40)"), tmp_path)))
