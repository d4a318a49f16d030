"""A recorded launch: its costs are the counters', its elements are what memory holds, its outputs are the product's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from recorded_launches import consumed, output_of, stored, traced

from gemmsmith.call.binding import aligned_code, bind_launch
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.compile.compiler import compile_for
from gemmsmith.fills import operands
from gemmsmith.kernel.spec import Addresses
from gemmsmith.ladder.registry import rung_named
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.lanes import Lanes
from gemmsmith.trace.launch_trace import Kind, LaunchTrace
from gemmsmith.trace.recording import device as tracing_device
from gemmsmith.trace.recording.recorder import LaunchRecorder

PLAIN = ("naive", "shared_tile", "vectorized", "warp_tile", "async_copy")
TENSOR = ("wmma", "mma_swizzled")
HOPPER = ("wgmma_tma", "wgmma_specialized", "wgmma_cluster")


@pytest.mark.parametrize("name", PLAIN)
def test_a_thread_stores_what_it_computes(name: str) -> None:
    """Rows of A that a thread's multiply-adds consume times columns of B are the outputs that it stores."""
    trace = traced(name)
    own, used = stored(trace), consumed(trace)
    assert own.keys() == used.keys()
    for thread, elements in own.items():
        rows, columns = used[thread]
        assert elements == {(row, column) for row in rows for column in columns}


@pytest.mark.parametrize("name", [*TENSOR, *HOPPER])
def test_each_output_is_computed_by_one_thread(name: str) -> None:
    trace = traced(name, 256, 256, 64) if name in HOPPER else traced(name)
    computed = [(row, column) for rows, columns in consumed(trace).values() for row in rows for column in columns]
    assert len(computed) == len(set(computed))
    wanted = {place for places in stored(trace).values() for place in places}
    assert set(computed) == wanted
    assert wanted


@pytest.mark.parametrize("name", [*PLAIN, *TENSOR])
def test_costs_are_those_of_the_counters(name: str) -> None:
    """Sectors and wavefronts of the recorded events add up to what is counted, instruction by instruction."""
    spec = rung_named(name)
    problem = spec.problem(32, 32, 32) if name in ("naive", "shared_tile") else spec.problem(128, 128, 32)
    config, seen = aligned_code(spec, spec.config(), problem)
    compiled = compile_for(spec, config, seen, "sm_90")
    device = SimDevice("sm_90", count=True)
    step = _bound(device, spec, config, problem, compiled)
    blocks = step.launch.geometry.blocks
    device.launch(step.loaded, step.launch, [0])
    assert device.counters is not None
    trace = traced(name, problem.m, problem.n, problem.k)
    assert blocks == len(trace.blocks)
    sums = _sums(trace)
    for position, counts in device.counters.by_position.items():
        if counts.sectors:
            assert sums[position, "sectors"] == counts.sectors
        if counts.wavefronts:
            assert sums[position, "wavefronts"] == counts.wavefronts
            assert sums[position, "groups"] == counts.groups
    for position, counts in device.counters.copies.items():
        assert sums[position, "target wavefronts"] == counts.wavefronts
        assert sums[position, "target groups"] == counts.groups


def _sums(trace: LaunchTrace) -> dict[tuple[int, str], int]:
    found: dict[tuple[int, str], int] = {}
    for warp in trace.warps:
        for event in warp.events:
            position = trace.instructions[event.instruction].position
            for side, access in (("", event.access), ("target ", event.target)):
                if access is not None:
                    for name in ("sectors", "wavefronts", "groups"):
                        key = position, side + name
                        found[key] = found.get(key, 0) + getattr(access, name)
    return found


def _bound(device: SimDevice, spec: Any, config: Any, problem: Any, compiled: Any) -> Any:
    given = operands(problem, "normal")
    places = Addresses(*(upload(device, matrix) for matrix in (given.a, given.b, given.c)))
    plan = plan_launches(spec, config, problem, places, specialized=True)
    return bind_launch(device, plan.kernel, places, device.allocate(plan.workspace_bytes), device.load(compiled))


def _written(device: SimDevice) -> bytes:
    """C: the third allocation."""
    base = device.memory._bases[2]
    return device.memory.data(base).tobytes()


class CheckedRecorder(LaunchRecorder):
    """Compares what shared memory holds with the elements that it is said to hold, every few steps."""

    compared = 0

    def executes(self, machine: Any, step: Any, lanes: Lanes) -> None:
        if machine.steps_taken % 23 == 0:
            self._compare(machine)
        super().executes(machine, step, lanes)

    def _compare(self, machine: Any) -> None:
        unit, tags = self.provenance.granule, self.provenance.shared
        known = np.flatnonzero(tags)
        if not known.size or (block := self._block(machine)) < 0:
            return
        kind = {1: np.uint8, 2: np.uint16, 4: np.uint32}[unit]
        start = block * machine.shared.stride
        here = machine.shared.data[start : start + machine.shared.stride].view(kind)[known]
        there = machine.memory.gather(tags[known].astype(np.uint64), unit).view(kind)
        assert np.array_equal(here, there)
        type(self).compared += known.size


@pytest.mark.parametrize(
    "name", ["shared_tile", "warp_tile", "async_copy", "mma_swizzled", "wgmma_specialized", "wgmma_cluster"]
)
def test_shared_memory_holds_the_elements_that_the_trace_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also through registers and transposed stores, through cp.async with a swizzle, and through TMA and multicasts."""
    monkeypatch.setattr(tracing_device, "LaunchRecorder", CheckedRecorder)
    monkeypatch.setattr(CheckedRecorder, "compared", 0)
    size = 256 if "wgmma" in name else 128
    traced.__wrapped__(name, size, size, 64)
    assert CheckedRecorder.compared > 10_000


def test_a_recorder_changes_nothing() -> None:
    spec = rung_named("async_copy")
    problem = spec.problem(64, 64, 32)
    config, seen = aligned_code(spec, spec.config(), problem)
    compiled = compile_for(spec, config, seen, "sm_90")
    results = []
    for watched in (False, True):
        device = SimDevice("sm_90", count=True)
        step = _bound(device, spec, config, problem, compiled)
        if watched:
            geometry = step.launch.geometry
            device.recorder = LaunchRecorder(step.loaded.lowered, geometry.grid, geometry.threads, 0, (), 1 << 16, 4)
        device.launch(step.loaded, step.launch)
        assert device.counters is not None
        results.append((_written(device), device.counters.by_position))
    assert results[0] == results[1]


@pytest.mark.parametrize("name", [*PLAIN, *TENSOR, "wgmma_specialized"])
def test_events_of_a_warp_follow_one_another(name: str) -> None:
    trace = traced(name, 256, 256, 64) if name in HOPPER else traced(name)
    for warp in trace.warps:
        if warp.number >= 0:
            ends = [event.stop for event in warp.events]
            assert [event.start for event in warp.events] == [0, *ends[:-1]]


def test_a_barrier_lets_all_warps_go_on_in_the_same_slot() -> None:
    """Warps that do different things before it arrive at different slots."""
    trace = traced("wgmma_specialized", 256, 256, 64)
    firsts = [next(event for event in warp.events if trace.instructions[event.instruction].ptx.startswith("bar.sync"))
              for warp in trace.warps]  # fmt: skip
    assert len({event.start for event in firsts}) > 1
    assert {event.stop for event in firsts} == {max(event.start for event in firsts) + 1}


def test_a_wait_ends_after_the_phase_it_waits_for() -> None:
    trace = traced("wgmma_specialized", 256, 256, 64)
    complete = {(phase.barrier, phase.phase): phase.slot for phase in trace.phases}
    waits = [event for warp in trace.warps for event in warp.events
             if trace.instructions[event.instruction].kind is Kind.PHASE_WAIT]  # fmt: skip
    assert any(event.slots > 1 for event in waits)
    for event in waits:
        assert event.facts is not None
        known = complete.get((event.facts["barrier"], event.facts["phase"]))
        assert known is None or event.stop > known


def test_a_tma_load_names_its_box_and_its_mbarrier() -> None:
    trace = traced("wgmma_specialized", 256, 256, 64)
    loads = [event.facts for warp in trace.warps for event in warp.events
             if trace.instructions[event.instruction].kind is Kind.BULK_LOAD]  # fmt: skip
    assert {facts["array"] for facts in loads if facts} == {"A", "B"}
    first = next(facts for facts in loads if facts and facts["array"] == "A")
    assert first["swizzle"] == 128
    assert first["rows"][0] == 0
    assert first["bytes"] == first["box"][0] * first["box"][1] * 2
    assert first["barrier"] in {phase.barrier for phase in trace.phases}


@pytest.mark.parametrize(("name", "instruction"), [("mma_swizzled", "mma.sync"), ("wmma", "mma.sync"),
                                                    ("wgmma_tma", "wgmma.mma_async")])  # fmt: skip
def test_a_fragment_knows_the_elements_of_its_operands(name: str, instruction: str) -> None:
    """Row r of A is one row of the array, and element k of it lies at k."""
    size = 256 if name in HOPPER else 128
    trace = traced(name, size, size, 64)
    fragment = trace.fragments[0]
    assert fragment.name.startswith(instruction)
    a, b = (next(array for array in trace.arrays if array.role == role) for role in "AB")
    rows = [
        [a.place(fragment.a_of[r * fragment.depth + k]) for k in range(fragment.depth)] for r in range(fragment.rows)
    ]
    first = rows[0][0][1]
    assert all(place == (rows[r][0][0], first + k) for r, row in enumerate(rows) for k, place in enumerate(row))
    below = [b.place(fragment.b_of[k * fragment.columns]) for k in range(fragment.depth)]
    assert below == [(first + k, below[0][1]) for k in range(fragment.depth)]
    assert len(set(fragment.d_held)) == (32 * 4 if name not in HOPPER else len(fragment.d_held) // 4)


def test_other_blocks_are_in_outline() -> None:
    trace = traced("shared_tile")
    out = output_of(trace)
    tiles = {block.block: block.stored for block in trace.blocks}
    assert len(tiles) == 16
    boxes = [box for some in tiles.values() for box in some if box.array == out.name]
    area = sum((box.last_row - box.first_row + 1) * (box.last_column - box.first_column + 1) for box in boxes)
    assert area == 128 * 128
