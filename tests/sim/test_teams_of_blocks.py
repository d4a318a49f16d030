"""Blocks that wait for one another through memory: races are looked for block after block, or warp after warp."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_launch import run

from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.machine import Machine
from gemmsmith.sim.races.hazards import HazardError

# Block 1 hands a row to block 0; each warp has a flag of its own.
HANDED_OVER = """
extern "C" __global__ void k(float* row, unsigned* flags, float* out) {
    const int warp = threadIdx.x / 32;
    unsigned* flag = flags + warp;
    if (blockIdx.x == 1) {
        row[threadIdx.x] = threadIdx.x;
        FENCE
        __syncwarp();
        if (threadIdx.x % 32 == 0) atomicExch(flag, 1u);
    } else {
        if (threadIdx.x % 32 == 0) {
            while (atomicAdd(flag, 0u) == 0u) {}
            __threadfence();
        }
        __syncwarp();
        out[threadIdx.x] = row[threadIdx.x];
    }
}
"""
# The same within a block: warp 1 hands to warp 0.
WITHIN = """
extern "C" __global__ void k(float* row, unsigned* flags, float* out) {
    unsigned* flag = flags + blockIdx.x;
    float* mine = row + blockIdx.x * 32;
    if (threadIdx.x >= 32) {
        mine[threadIdx.x - 32] = threadIdx.x;
        FENCE
        __syncwarp();
        if (threadIdx.x == 32) atomicExch(flag, 1u);
    } else {
        if (threadIdx.x == 0) {
            while (atomicAdd(flag, 0u) == 0u) {}
            __threadfence();
        }
        __syncwarp();
        out[blockIdx.x * 32 + threadIdx.x] = mine[threadIdx.x];
    }
}
"""


def watched(source: str, fence: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[np.ndarray]]:
    """How many teams each look had, and what was computed."""
    teams: list[int] = []
    start = Machine._start

    def counted(self: Machine):  # type: ignore[no-untyped-def]
        groups = start(self)
        teams.append(len(groups))
        return groups

    monkeypatch.setattr(Machine, "_start", counted)
    found = run(source.replace("FENCE", fence), np.zeros(64, np.float32), np.zeros(2, np.uint32),
                np.zeros(64, np.float32), grid=2, block=64, device=SimDevice(hazards=True))  # fmt: skip
    return teams, found


def test_blocks_are_teams_where_no_block_waits_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    teams, (_, _, out) = watched(HANDED_OVER, "__threadfence();", monkeypatch)
    assert teams == [1, 2]
    assert (out == np.arange(64)).all()


def test_warps_are_teams_where_warps_of_a_block_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    teams, (_, _, out) = watched(WITHIN, "__threadfence();", monkeypatch)
    assert teams == [1, 4]
    assert (out == np.tile(np.arange(32, 64), 2)).all()


@pytest.mark.parametrize("source", [HANDED_OVER, WITHIN], ids=["between blocks", "within a block"])
def test_a_missing_fence_is_found_either_way(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HazardError, match="race on global address"):
        watched(source, "", monkeypatch)
