"""A block that ends before its stores by TMA have read their source: legal on an H200, and a note."""

from __future__ import annotations

import numpy as np
import pytest
from async_mistakes import CODE

import gemmsmith
from gemmsmith.sim.races.hazards import HazardKind

STORE = r"""
template <int MISTAKE> __device__ void ending(const void* map) {
    __shared__ alignas(1024) unsigned tile[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) tile[i] = i + 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(map), "r"(0), "r"(0), "r"(shared(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (MISTAKE == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        if (MISTAKE == 2) tile[5] = 0;
    }
}
#define ENDING(name, mistake) extern "C" __global__ void name(const __grid_constant__ CUtensorMap map) { \
    ending<mistake>(&map); }
ENDING(ending_waited, 0)
ENDING(ending_unwaited, 1)
ENDING(ending_overwritten, 2)
"""


@pytest.mark.parametrize("schedule", ["lockstep", "reversed"])
@pytest.mark.parametrize(("kernel", "notes", "hazards"), [
    ("ending_waited", 0, []), ("ending_unwaited", 1, []), ("ending_overwritten", 1, [HazardKind.STILL_READ]),
])  # fmt: skip
def test_only_a_source_that_is_overwritten_is_a_hazard(
    kernel: str, notes: int, hazards: list[HazardKind], schedule: str
) -> None:
    out = np.zeros((8, 32), np.uint32)
    result = gemmsmith.launch(CODE + STORE, kernel, grid=1, block=64, schedule=schedule,
                              args=[gemmsmith.tensor_map(out, box=(8, 32))])  # fmt: skip
    assert [hazard.kind for hazard in result.hazards] == hazards
    assert sum("store-at-end-of-block" in note for note in result.notes) == notes
    if not hazards:
        assert np.array_equal(result["map"].reshape(-1), np.arange(256) + 1)
