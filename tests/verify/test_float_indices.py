"""Indices that a kernel computes in floating point: rounding makes another one of some."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.compile.compiler import compile_for
from gemmsmith.problem import Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.ptx.reader import parse
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.verify.code.edges import Coverage, KernelEdges
from gemmsmith.verify.trials.float_index_trials import float_index_trials, misrounded_indices
from gemmsmith.verify.trials.trial_runner import TrialRunner
from gemmsmith.verify.trials.trial_subject import Subject

_TILES = """__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    int down = (M + 7) / 8, across = (N + 7) / 8;
    for (int tile = blockIdx.x; tile < down * across; tile += gridDim.x) {
        int y = ROW;
        int x = tile - y * across;
        int row = 8 * y + threadIdx.y, col = 8 * x + threadIdx.x;
        if (row >= M || col >= N) continue;
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    mine<<<GRID, dim3(8, 8)>>>(A, B, C, M, N, K);
}
"""
_ALL = "((M + 7) / 8) * ((N + 7) / 8)"
_ELEMENTS = """__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    int i = blockIdx.x * 64 + threadIdx.x;
    int row = ROW;
    int col = i - row * N;
    if (row >= M || col < 0 || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    mine<<<(M * N + 63) / 64, 64>>>(A, B, C, M, N, K);
}
"""


def _verdicts(source: str, folder: Path) -> list[tuple[Problem, bool]]:
    """The products that are tried, and whether the kernel is right there."""
    (folder / "mine.cu").write_text(source)
    spec = user_kernel(folder / "mine.cu", UserOptions())
    subject = Subject(spec, spec.config(), Problem(64, 64, 64), (8, 8), KernelEdges((4,)))
    compiled = compile_for(spec, subject.config, subject.base, "sm_90")
    found = misrounded_indices(parse(compiled.ptx).entry(compiled.entry), subject)
    runner = TrialRunner(spec, subject.config, compiled, lambda *_: SimDevice("sm_90"), lambda *_: compiled)
    tried = float_index_trials(Subject(spec, subject.config, subject.base, (8, 8), subject.edges,
                                       coverage=Coverage(misrounded=found)))  # fmt: skip
    return [(trial.problem, runner.run(trial).trusted) for trial in tried]


@pytest.mark.parametrize("grid", [_ALL, "32"])
@pytest.mark.parametrize(("row", "tiles"), [
    ("tile * (1.0f / across)", 41),
    ("__fdividef((float)tile, (float)across)", 33),
    ("floorf(tile * __frcp_rn((float)across))", 41),
])  # fmt: skip
def test_the_first_number_of_tiles_at_which_a_quotient_is_rounded(
    row: str, tiles: int, grid: str, tmp_path: Path
) -> None:
    found = _verdicts(_TILES.replace("ROW", row).replace("GRID", grid), tmp_path)
    assert found
    assert not any(right for _, right in found)
    assert {problem.n for problem, _ in found} == {8 * tiles}


def test_a_quotient_that_is_corrected_is_right_where_it_is_rounded(tmp_path: Path) -> None:
    row = "tile * (1.0f / across); y += (y + 1) * across <= tile"
    found = _verdicts(_TILES.replace("ROW", row).replace("GRID", _ALL), tmp_path)
    assert [right for _, right in found] == [True]


@pytest.mark.parametrize("row", ["(float)tile / (float)across", "(tile + 0.5f) * (1.0f / across)", "tile / across"])
def test_no_trial_where_rounding_changes_no_index(row: str, tmp_path: Path) -> None:
    assert not _verdicts(_TILES.replace("ROW", row).replace("GRID", _ALL), tmp_path)


def test_indices_of_the_threads_of_a_block(tmp_path: Path) -> None:
    found = _verdicts(_ELEMENTS.replace("ROW", "i * (1.0f / N)"), tmp_path)
    assert found
    assert not any(right for _, right in found)
