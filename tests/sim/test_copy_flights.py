"""How long asynchronous copies are in flight: the simulator's steps from a copy to the wait for its group."""

from __future__ import annotations

import numpy as np
import pytest

import gemmsmith

SOURCE = """
#include <cuda_pipeline.h>
__global__ void k(const float4* in, float* out, int steps) {
    __shared__ float4 memory[2][32];
    float x = threadIdx.x;
    __pipeline_memcpy_async(&memory[0][threadIdx.x], in + threadIdx.x, 16);
    __pipeline_commit();
    EARLY
    __pipeline_memcpy_async(&memory[1][threadIdx.x], in + threadIdx.x, 16);
    __pipeline_commit();
    for (int i = 0; i < steps; ++i) x = x * 1.5f + 1.0f;
    __pipeline_wait_prior(WAIT);
    out[threadIdx.x] = x;
    __pipeline_wait_prior(0);
    out[threadIdx.x] += memory[0][threadIdx.x].x + memory[1][threadIdx.x].x;
}
"""


def flights(steps: int, early: str = "", wait: int = 0) -> list[int]:
    """Steps in flight of the two copies, in program order."""
    source = SOURCE.replace("EARLY", early).replace("WAIT", str(wait))
    args = [np.zeros((32, 4), np.float32).view(np.float32), np.zeros(32, np.float32), steps]
    result = gemmsmith.launch(source, grid=1, block=32, args=args)
    assert result.ok
    assert result.counters is not None
    copies = result.counters.raw.copies
    return [result.counters.raw.by_position[position].flight for position in sorted(copies)]


def test_a_copy_flies_until_its_group_is_waited_for() -> None:
    few, many = flights(1), flights(20)
    assert all(later >= earlier + 19 for earlier, later in zip(few, many, strict=True))
    assert few[0] > few[1]  # it was started first


def test_a_copy_that_is_waited_for_at_once_does_not_fly() -> None:
    first, second = flights(20, early="__pipeline_wait_prior(0);")
    assert first <= 3
    assert second >= 20


def test_a_wait_that_allows_the_latest_group_ends_the_earlier_one_only() -> None:
    allowed, strict = flights(20, wait=1), flights(20, wait=0)
    assert allowed[0] == strict[0]
    assert allowed[1] > strict[1]


def test_steps_are_counted_for_each_warp() -> None:
    source = SOURCE.replace("EARLY", "").replace("WAIT", "0").replace("[2][32]", "[2][64]")
    args = [np.zeros((64, 4), np.float32), np.zeros(64, np.float32), 10]
    two = gemmsmith.launch(source, grid=1, block=64, args=args).counters
    one = gemmsmith.launch(source, grid=1, block=32, args=args).counters
    assert one is not None
    assert two is not None
    totals = [sum(count.flight for _, count in each.raw.items()) for each in (one, two)]
    assert totals[1] == pytest.approx(2 * totals[0], rel=0.2)
