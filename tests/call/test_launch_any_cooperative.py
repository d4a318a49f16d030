"""Cooperative launches: grid.sync() under every schedule, races without it, and grids that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import gemmsmith
from gemmsmith.call.any_kernel.cooperative import resident_blocks
from gemmsmith.call.any_kernel.result import LaunchResult
from gemmsmith.compile.compiled import Resources
from gemmsmith.errors import SimulationError, UsageError
from gemmsmith.explain.occupancy import occupancy
from gemmsmith.gpus import gpu_named
from gemmsmith.kernel.geometry import Geometry

CODE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void mirror(float* a, float* b, int n) {
    cg::grid_group grid = cg::this_grid();
    int i = grid.thread_rank();
    for (int round = 0; round < 2; round++) {
        a[i] = b[i] + 1;
        FIRST;
        b[i] = a[n - 1 - i];
        SECOND;
    }
}
"""
SCHEDULES = ("lockstep", "in_order", "reversed", "random", "starved")


def run(
    first: str = "grid.sync()", second: str = "grid.sync()", *, blocks: int = 3, cooperative: bool = True,
    schedule: str = "lockstep", hazards: bool = True,
) -> LaunchResult:  # fmt: skip
    n = 64 * blocks
    args = [np.zeros(n, np.float32), np.arange(n, dtype=np.float32), n]
    return gemmsmith.launch(CODE, grid=blocks, block=64, args=args, defines={"FIRST": first, "SECOND": second},
                            cooperative=cooperative, schedule=schedule, hazards=hazards)  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_barrier_of_the_grid_orders_all_blocks(schedule: str) -> None:
    result = run(schedule=schedule)
    assert result["b"].tolist() == (np.arange(192) + 2).tolist()
    assert result.ok, result.hazards


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("first", "second"), [("__syncthreads()", "grid.sync()"), ("grid.sync()", "__syncthreads()")])
def test_a_missing_barrier_is_a_race_under_every_schedule(first: str, second: str, schedule: str) -> None:
    assert any(hazard.across_blocks for hazard in run(first, second, schedule=schedule).hazards)


def test_many_blocks_run_together() -> None:
    """More than the simulator's waves and teams have."""
    assert run(blocks=160, hazards=False)["b"].tolist() == (np.arange(10240) + 2).tolist()


def test_without_a_cooperative_launch_the_fault_names_the_option() -> None:
    with pytest.raises(SimulationError, match="cooperative=True"):
        run(cooperative=False)


def test_a_grid_that_does_not_fit_is_refused_with_the_figure() -> None:
    figure = r"5,000 blocks: H200 holds 4,224 of mirror at once \(132 SMs × 32 blocks of 64 threads\)"
    with pytest.raises(UsageError, match=figure):
        run(blocks=5000)


def test_resident_blocks_agree_with_the_occupancy_calculator() -> None:
    gpu, rng = gpu_named("H200"), np.random.default_rng(1)
    for _ in range(300):
        threads, registers = int(rng.integers(1, 33)) * 32, int(rng.integers(16, 65))
        smem, barriers = int(rng.integers(0, 100_000)), int(rng.integers(0, 5))
        used = Resources(registers, 256, 0, 0, 0, 0, barriers)
        expected = occupancy(
            gpu, threads=threads, registers=registers, static_smem=256, dynamic_smem=smem, barriers=barriers
        )
        assert resident_blocks(gpu, used, Geometry((1, 1, 1), (threads, 1, 1), smem)) == expected.blocks_per_sm
