"""cuda::barrier, cuda::pipeline and cooperative groups, as NVRTC compiles them for two architectures."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from ptx_launch import Array, scheduled
from tensor_core_launch import run

from gemmsmith import launch
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import CompileRequest
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.races.hazards import HazardError

SOURCE = Path(__file__).parents[1] / "data" / "synchronization.cu"
KERNELS = ("barrier_of_all", "barriers_of_copies", "pipeline_of_all", "pipeline_of_roles", "pipeline_of_threads",
           "copies_of_a_group")  # fmt: skip
WITH_A_PRODUCER = ("pipeline_of_roles", "without_acquire", "without_wait")
ROWS = 4


@cache
def module(arch: str) -> CompiledKernel:
    request = CompileRequest(SOURCE.name, SOURCE.read_text(encoding="utf-8"), (), (), arch, KERNELS[0])
    return compile_request(request, find_toolchain())


def total(entry: str, arch: str, schedule: tuple[str, int]) -> tuple[Array, Array]:
    """(the sums of a kernel, the right ones)"""
    data = np.random.default_rng(1).integers(-99, 99, (ROWS, 256)).astype(np.float32)
    device = SimDevice(schedule=scheduled(schedule), hazards=True)
    kernel, threads = replace(module(arch), entry=entry), 288 if entry in WITH_A_PRODUCER else 256
    found = run(device, kernel, (1, 1, 1), threads, [data, np.zeros(256, np.float32)], ROWS)[1]
    return found, data[:, np.arange(256) ^ 37].sum(axis=0)


@pytest.mark.parametrize("schedule", [("lockstep", 0), ("reversed", 0)], ids=str)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("entry", KERNELS)
def test_every_thread_sees_what_the_others_brought(entry: str, arch: str, schedule: tuple[str, int]) -> None:
    found, expected = total(entry, arch, schedule)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("schedule", [("lockstep", 0), ("reversed", 0)], ids=str)
@pytest.mark.parametrize("entry", ["without_acquire", "without_wait"])
def test_a_pipeline_that_leaves_out_a_step_is_a_race(entry: str, schedule: tuple[str, int]) -> None:
    with pytest.raises(HazardError) as caught:
        total(entry, "sm_80", schedule)
    assert any(hazard.across_warps and not hazard.is_global for hazard in caught.value.hazards)


ALIGNED = """
#include <cuda/barrier>
__global__ void reversed(const float4* in, float4* out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> all;
    __shared__ alignas(16) float4 tile[64];
    if (threadIdx.x == 0) init(&all, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(tile + threadIdx.x, in + threadIdx.x, cuda::aligned_size_t<16>(16), all);
    all.arrive_and_wait();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
"""


def test_a_barrier_of_the_library_needs_no_fence_before_its_own_copies(tmp_path: Path) -> None:
    """For sm_90 these copies are cp.async.bulk, which in other code need a fence after the initialisation."""
    file = tmp_path / "reversed.cu"
    file.write_text(ALIGNED, encoding="utf-8")
    data = np.arange(256, dtype=np.float32)
    found = launch(file, "reversed", grid=1, block=64, args=[data, np.zeros(256, np.float32)], device="sim")
    assert not found.hazards
    assert np.array_equal(found.written[0].reshape(64, 4), data.reshape(64, 4)[::-1])
