"""A launch that faults: recorded up to there, with what happened."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gemmsmith
from gemmsmith.errors import SimulationError
from gemmsmith.report.view.page import view_page
from gemmsmith.report.view.registry import built
from gemmsmith.trace.launch_trace import LaunchTrace
from gemmsmith.trace.perfetto import perfetto_text
from gemmsmith.trace.recording.record import record_launch
from gemmsmith.trace.trace_json import from_json, to_json

# Blocks of 32 threads walk along a row; the last row's block goes one step too far.
SOURCE = """
__global__ void walk(const float* x, float* out, int steps) {
    __shared__ float seen[32];
    float sum = 0;
    for (int i = 0; i <= steps; ++i) {
        seen[threadIdx.x] = x[(blockIdx.x * steps + i) * 32 + threadIdx.x];
        __syncthreads();
        sum += seen[31 - threadIdx.x];
        __syncthreads();
    }
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}
"""


def recorded(block: int) -> LaunchTrace:
    x, out = np.ones((3, 4, 32), np.float32), np.zeros((3, 32), np.float32)
    launch = gemmsmith.Launch(SOURCE, "walk", grid=3, block=32, args=(x, out, 4))
    return record_launch(launch, title="walk", block=(block, 0, 0))[0]


def test_what_ran_until_the_fault_is_recorded() -> None:
    trace = recorded(2)
    assert "out-of-bounds global read" in trace.fault
    assert "block (2,0,0)" in trace.fault
    assert "--trace-block" not in trace.fault, "this is the block"
    loads = [event for event in trace.warps[0].events if event.access is not None and event.access.space == "global"]
    x = next(array for array in trace.arrays if array.name == "x")
    steps = [(event.access.at - x.address) // 128 - 2 * 4 for event in loads if event.access is not None]
    assert steps == [0, 1, 2, 3, 4], "the last is the access that faults"


def test_the_block_that_faults_is_named() -> None:
    assert recorded(0).fault.endswith("--trace-block 2,0,0 draws it.")


def test_files_and_pages_say_it() -> None:
    trace = recorded(2)
    assert from_json(json.loads(json.dumps(to_json(trace)))).fault == trace.fault
    stopped = [each for each in json.loads(perfetto_text(trace))["traceEvents"] if each["name"] == "the launch stopped"]
    assert [each["args"]["fault"] for each in stopped] == [trace.fault]
    seen = gemmsmith.view(trace)
    assert {"access", "pipeline", "occupancy", "code"} <= built(seen.subject).keys()
    assert "<b>The launch stopped.</b> out-of-bounds global read" in view_page(seen.subject)
    assert "The launch stopped" not in gemmsmith.view("naive", 32, 32, 8).html


def test_a_launch_that_faults_before_it_begins_is_an_error() -> None:
    """Nothing was recorded, so there is nothing to draw."""
    source = "__global__ void first(float* x) { if (blockIdx.x == 0) __trap(); x[threadIdx.x] = 1; }"
    launch = gemmsmith.Launch(source, "first", grid=64, block=1024, args=(np.ones(1024, np.float32),))
    with pytest.raises(SimulationError, match="trap"):
        record_launch(launch, title="first", block=(63, 0, 0))
