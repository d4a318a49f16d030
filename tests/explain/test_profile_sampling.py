"""Counts extrapolated from a sample of blocks: exact for equal blocks, within the stated error otherwise."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from explained import compiled, profiled

from gemmsmith.compile.compiler import compile_kernel
from gemmsmith.explain.metrics import METRICS
from gemmsmith.explain.profile import Profile
from gemmsmith.explain.sampling import BUDGET, affordable, draw, strata
from gemmsmith.explain.simulated_profile import simulate
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

COUNTED = [m.name for m in METRICS if not m.hardware_only]


def differences(found: Profile, true: Profile) -> dict[str, tuple[float, float]]:
    """(relative difference, stated error) of each metric that differs."""
    errors = dict(found.errors)
    return {
        name: (abs(found.value(name) - true.value(name)) / true.value(name), errors.get(name, 0.0))
        for name in COUNTED
        if found.value(name) != true.value(name)
    }


@pytest.mark.parametrize("name", ["coalesced", "vectorized"])
def test_a_sample_of_equal_blocks_is_exact(name: str) -> None:
    full, part = profiled(name, 512, 512, 64), profiled(name, 512, 512, 64, 8)
    assert 0 < part.sampled_blocks < full.geometry.blocks
    assert differences(part, full) == {}
    assert part.sampling_error == 0
    assert part.mix == full.mix
    assert part.lines == full.lines


def test_the_estimate_at_512_cubed_is_within_its_error() -> None:
    full, part = profiled("rectangular", 512, 512, 512), profiled("rectangular", 512, 512, 512, 8)
    assert part.sampled_blocks == 8
    assert all(off <= error for off, error in differences(part, full).values())


@pytest.mark.parametrize("name", ["naive", "shared_tile", "block_tile_1d"])
def test_edge_blocks_are_sampled_separately(name: str) -> None:
    """Edge blocks do less work; sampling them together with interior blocks would be off by several per cent."""
    full, part = profiled(name, 333, 407, 20), profiled(name, 333, 407, 20, 8)
    assert part.sampled_blocks < full.geometry.blocks
    assert differences(part, full) == {}


TRIANGLE = """
#define TILE 16
__global__ void lower(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < min(K, (int)blockIdx.y); ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
"""


def test_the_stated_error_covers_blocks_that_differ(tmp_path: Path) -> None:
    file = tmp_path / "lower.cu"
    file.write_text(TRIANGLE)
    spec = user_kernel(file, UserOptions())
    problem = Problem(320, 320, 20)
    code = compile_kernel(spec, spec.config(), dtype=problem.dtype, arch="sm_90")
    full, part = (simulate(spec, spec.config(), problem, code, sample=n) for n in (0, 40))
    assert 0.01 < part.sampling_error < 1
    off = differences(part, full)
    assert off
    assert all(away <= error for away, error in off.values())


def test_a_single_block_has_no_error_estimate() -> None:
    part = profiled("coalesced", 512, 512, 64, 1)
    assert math.isnan(part.sampling_error)


@pytest.mark.parametrize("name", ["naive", "rectangular", "async_copy"])
def test_extrapolation_from_a_short_k_is_exact(name: str) -> None:
    short, full = profiled(name, 128, 128, 320, 0, 64), profiled(name, 128, 128, 320)
    assert (short.sampled_depth, full.sampled_depth) == (128, 0)
    assert differences(short, full) == {}
    assert short.machine_mix == full.machine_mix


def test_a_short_k_is_not_shortened() -> None:
    assert profiled("coalesced", 64, 64, 100, 0, 64).sampled_depth == 0


def test_strata_of_a_ragged_grid() -> None:
    spec = rung_named("coalesced")
    inside, right, bottom, corner = strata(spec, spec.config(), Problem(100, 70, 8))
    assert (len(inside), len(right), len(bottom), len(corner)) == (6, 3, 2, 1)  # 4 × 3 tiles of 32
    assert right == [2, 5, 8]
    assert bottom == [9, 10]
    assert corner == [11]
    assert strata(spec, spec.config(), Problem(96, 64, 8)) == [[0, 1, 2, 3, 4, 5]]


def test_strata_where_x_counts_rows() -> None:
    def geometry(problem: Problem, _: Config) -> Geometry:
        return Geometry((-(-problem.m // 16), -(-problem.n // 16), 1), (16, 16, 1))

    base = rung_named("coalesced")
    spec = KernelSpec("mine", base.source, "", "", geometry)
    kinds = strata(spec, Config(), Problem(40, 20, 8))  # 3 down, 2 across; number = row + 3 · column
    assert kinds == [[0, 1], [3, 4], [2], [5]]


def test_small_kinds_run_completely_and_the_rest_is_sampled() -> None:
    sampled, whole = draw([list(range(1000)), list(range(1000, 1100)), [1100, 1101]], 40)
    assert whole == [1100, 1101]
    assert [size for size, _ in sampled] == [1000, 100]
    assert [len(blocks) for _, blocks in sampled] == [37, 4]
    assert all(len(set(blocks)) == len(blocks) for _, blocks in sampled)
    assert max(sampled[0][1]) < 1000 <= min(sampled[1][1])


def test_a_sample_larger_than_the_grid_is_the_grid() -> None:
    spec = rung_named("coalesced")
    profile = simulate(spec, spec.config(), Problem(64, 64, 8), compiled("coalesced"), sample=1000)
    assert profile.sampled_blocks == 0
    assert profile.sampling_error == 0


@pytest.mark.parametrize(
    ("tile", "size", "expected"),
    [
        (32, 512, (0, 0)),  # 2^27 multiply-adds: all of them
        (32, 1024, (256, 0)),  # a quarter of 1,024 blocks
        (32, 8192, (32, 0)),
        (128, 8192, (16, 256)),  # two blocks fill the budget: shorter blocks instead
    ],
)
def test_affordable_sample_and_depth(tile: int, size: int, expected: tuple[int, int]) -> None:
    assert BUDGET == 2**28
    side = size // tile
    assert affordable(Geometry((side, side, 1), (256, 1, 1)), Problem(size, size, size)) == expected
