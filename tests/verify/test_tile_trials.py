"""Trials of many tiles: more than a fixed grid's blocks, and where host code's grid changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.verify.code.edges import KernelEdges
from gemmsmith.verify.trials.edge_trials import edge_trials
from gemmsmith.verify.trials.multiples import Multiples
from gemmsmith.verify.trials.sparse_launch import runs_on_parts
from gemmsmith.verify.trials.tile_trials import grid_changes, many_tiles
from gemmsmith.verify.trials.trial import Size, Trial
from gemmsmith.verify.trials.trial_subject import Subject

_TILES = """__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    const int across = (N + 7) / 8, down = (M + 7) / 8;
    for (int tile = blockIdx.x + gridDim.x * blockIdx.y; tile < across * down; tile += gridDim.x * gridDim.y) {
        int row = tile / across * 8 + threadIdx.y, col = tile % across * 8 + threadIdx.x;
        float sum = 0.0f;
        if (row < M && col < N) {
            for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
            C[row * N + col] = sum;
        }
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    mine<<<GRID, dim3(8, 8)>>>(A, B, C, M, N, K);
}
"""


def subject(grid: str, folder: Path) -> Subject:
    file = folder / "mine.cu"
    file.write_text(_TILES.replace("GRID", grid))
    spec = user_kernel(file, UserOptions())
    return Subject(spec, spec.config(), Problem(64, 64, 64), (8, 8), KernelEdges((8,)))


@pytest.mark.parametrize(
    ("grid", "sizes"),
    [
        ("dim3((N + 7) / 8, (M + 7) / 8)", []),
        ("dim3(N > 300 ? (N + 15) / 16 : (N + 7) / 8, (M + 7) / 8)", [(7, 304)]),
        ("dim3((N + 7) / 8, (M + 7) / 8 < 20 ? (M + 7) / 8 : 20)", [(168, 7)]),
        ("dim3(5, 5)", []),
    ],
)
def test_sizes_at_which_the_grid_changes(grid: str, sizes: list[tuple[int, int]], tmp_path: Path) -> None:
    assert [(t.problem.m, t.problem.n) for t in grid_changes(subject(grid, tmp_path))] == sizes


def test_more_tiles_than_blocks_of_a_fixed_grid(tmp_path: Path) -> None:
    def waves(grid: str) -> list[Trial]:
        return [t for t in many_tiles(subject(grid, tmp_path), lambda _: True) if t.label.startswith("more tiles than")]

    fixed = waves("dim3(40)")
    assert [t.problem.k for t in fixed] == [8, 16]
    assert all(t.hazards and (t.problem.m + 7) // 8 * 3 > 2 * 40 for t in fixed)
    assert not waves("dim3((N + 7) / 8, (M + 7) / 8)")


def test_a_rung_whose_prologue_copies_operands_is_not_run_on_parts_of_them() -> None:
    spec = rung_named("wgmma_tma")
    assert runs_on_parts(spec, spec.config(), spec.problem(1025, 256, 256))
    assert not runs_on_parts(spec, spec.config(), spec.problem(1025, 255, 258))  # rows start on no 16 bytes
    own = Subject(spec, spec.config(), spec.problem(128, 256, 64), (128, 256), KernelEdges((64,)), samples=True)
    sparse = [trial.problem for trial in edge_trials(own) if trial.size is Size.SPARSE]
    assert sparse
    assert all(runs_on_parts(spec, spec.config(), problem) for problem in sparse)


def test_extents_are_equal_where_their_multiples_differ(tmp_path: Path) -> None:
    """Whole tiles of 48 by 64: M = N from 192 on."""
    own = replace(subject("dim3((N + 7) / 8, (M + 7) / 8)", tmp_path), tile=(48, 64), multiples=Multiples(48, 64, 8))
    found = {trial.label: trial.problem for trial in edge_trials(own)}
    assert (found["M = N"].m, found["M = N"].n) == (192, 192)
    assert found["M = K"].m == found["M = K"].k == 48 * 2
    assert found["N = K"].n == found["N = K"].k == 64


def test_the_last_of_many_k_tiles_lacks_one_row(tmp_path: Path) -> None:
    """Other values of K that are no multiple of the k-tile leave most of the last one out."""
    found = [trial.problem.k for trial in edge_trials(subject("dim3((N + 7) / 8, (M + 7) / 8)", tmp_path))]
    assert any(k > 1000 and k % 8 == 7 for k in found)
