"""Kernels that use tensor cores, compiled for two architectures and compared with NumPy; their races and conflicts."""

from __future__ import annotations

from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from ptx_launch import SCHEDULES, scheduled
from tensor_core_launch import compiled, pipelined, run, whole

from gemmsmith.compile.sass import disassemble
from gemmsmith.errors import SimulationError
from gemmsmith.explain.crosscheck import cross_check
from gemmsmith.explain.instruction_mix import machine_mix, simulated_mix
from gemmsmith.explain.metrics import simulated
from gemmsmith.sim.arithmetic.tensor_core import HOPPER, multiply_add
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.races.hazards import HazardError
from gemmsmith.sim.schedule import schedule_named

ARCHS = ("sm_80", "sm_90")
LDSM = "smsp__inst_executed_op_ldsm.sum"
LDSM_WAVES = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum"
LDSM_CONFLICTS = "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum"
LD_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
TENSOR = "sm__inst_executed_pipe_tensor.sum"


@pytest.mark.parametrize("arch", ARCHS)
def test_one_warp_without_shared_memory(arch: str) -> None:
    a, b = whole(1, 16, 48), whole(2, 48, 8)
    arrays = [a.astype(np.float16), b.astype(np.float16), np.zeros((16, 8), np.float32)]
    found = run(SimDevice(hazards=True), compiled("plain", arch), (1, 1, 1), 32, arrays, 48)[2]
    assert np.array_equal(found, a @ b)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_tile_is_transposed(arch: str) -> None:
    tile = np.random.default_rng(3).integers(0, 1 << 16, (16, 16)).astype(np.uint16)
    found = run(SimDevice(hazards=True), compiled("transpose", arch), (1, 1, 1), 32, [tile, np.zeros_like(tile)])[1]
    assert np.array_equal(found, tile.T)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("entry", "kind"), [("wmma_half", np.float16), ("wmma_bfloat", ml_dtypes.bfloat16)])
def test_the_warp_matrix_api(entry: str, kind: type, arch: str) -> None:
    a, b = whole(4, 32, 48), whole(5, 48, 64)
    arrays = [a.astype(kind), b.astype(kind), np.zeros((32, 64), np.float32)]
    device = SimDevice(hazards=True, count=True)
    found = run(device, compiled(entry, arch), (4, 2, 1), 32, arrays, 64, 48)[2]
    assert np.array_equal(found, 2 * a @ b)
    assert device.counters is not None
    metrics = simulated(device.counters)
    steps = 4 * 2 * 3
    # For bfloat mma.h goes through generic pointers, for which ptxas has plain loads only.
    assert (metrics[TENSOR], metrics[LDSM], metrics[LDSM_CONFLICTS]) == (
        2 * steps,
        2 * steps * (entry == "wmma_half"),
        0,
    )
    machine = Counter(i.base for i in disassemble(compiled(entry, arch)).instructions)
    ptx = Counter(o.profiled.sass or o.profiled.mix for o in device.counters.lowered.operations)
    assert (machine["LDSM"], machine["LD"], machine["HMMA"]) == (ptx["LDSM"], ptx["LD"], ptx["tensor"])


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("entry", ["wmma_rows", "wmma_columns"])
def test_the_warp_matrix_api_without_shared_memory(entry: str, arch: str) -> None:
    a, b, c = whole(6, 16, 16), whole(7, 16, 16), whole(8, 16, 16)
    order = "C" if entry == "wmma_rows" else "F"
    kinds = (np.float16, np.float16, np.float32)
    arrays = [x.astype(kind).reshape(-1, order=order) for x, kind in zip((a, b, c), kinds, strict=True)]
    device = SimDevice(count=True)
    found = run(device, compiled(entry, arch), (1, 1, 1), 32, arrays)[2].reshape(16, 16, order=order)
    assert np.array_equal(found, c + 2 * a @ b)
    assert device.counters is not None
    machine = Counter(i.base for i in disassemble(compiled(entry, arch)).instructions)
    operations = device.counters.lowered.operations
    ptx = Counter(o.profiled.sass for o in operations)
    transposed = sum(o.traits.called.startswith("movmatrix") for o in operations)
    assert (machine["LDG"], machine["STG"], machine["MOVM"]) == (ptx["LDG"], ptx["STG"], transposed)
    assert transposed == 4


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("arch", ARCHS)
def test_a_pipelined_product(arch: str, stages: int) -> None:
    a, b = whole(9, 128, 160), whole(10, 64, 160)
    assert np.array_equal(pipelined(SimDevice(hazards=True), a, b, arch, stages), a @ b.T)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_the_pipeline_gives_the_same_bits_under_every_schedule(schedule: tuple[str, int]) -> None:
    rng = np.random.default_rng(11)
    a, b = rng.standard_normal((64, 128)), rng.standard_normal((64, 128))
    found = pipelined(SimDevice(schedule=scheduled(schedule)), a, b)
    total = np.zeros((64, 64, 1), np.float32)
    for k in range(0, 128, 16):  # one mma.sync after another
        x, y = (m[:, k : k + 16].astype(np.float16).view(np.uint16).T[..., None] for m in (a, b))
        total = multiply_add("f16", x, y, total, HOPPER["f16"])
    assert np.array_equal(found, total[..., 0])
    exact = a.astype(np.float16).astype(np.float64) @ b.astype(np.float16).astype(np.float64).T
    assert np.abs(found - exact).max() < 1e-4


def test_a_pipeline_that_waits_too_little_is_a_race() -> None:
    a, b = whole(12, 64, 128), whole(13, 64, 128)
    with pytest.raises(HazardError) as error:
        pipelined(SimDevice(hazards=True), a, b, defines=(("WAIT", "2"),))
    hazards = [h for h in error.value.hazards if h.second.text.startswith("ldmatrix")]
    assert {h.kind for h in hazards} == {"in-flight-copy"}
    assert all(h.second.verb == "read" and "tensor_core_mma.cu:" in h.second.where for h in hazards)


def test_copies_that_land_late_are_missed_by_a_pipeline_that_waits_too_little() -> None:
    a, b = whole(12, 64, 128), whole(13, 64, 128)
    with pytest.raises(SimulationError, match="uninitialised shared read of 16 bytes") as error:
        pipelined(SimDevice(schedule=schedule_named("reversed")), a, b, defines=(("WAIT", "2"),))
    assert "ldmatrix.sync" in error.value.hint


def test_a_stage_overwritten_while_another_warp_reads_it_is_a_race() -> None:
    a, b = whole(14, 64, 256), whole(15, 64, 256)
    with pytest.raises(HazardError) as error:
        pipelined(SimDevice(hazards=True), a, b, defines=(("BARRIER", ""),))
    found = {(h.kind, h.first.text.split(".")[0], h.second.text.split(".")[0]) for h in error.value.hazards}
    assert ("write-after-read", "ldmatrix", "cp") in found
    assert ("read-after-write", "cp", "ldmatrix") in found


def test_swizzled_rows_have_no_bank_conflicts_and_plain_ones_have() -> None:
    a, b = whole(16, 64, 64), whole(17, 64, 64)
    counts = {}
    for name, defines in (("swizzled", ()), ("plain", (("SWIZZLE(row)", "0"),))):
        device = SimDevice(count=True)
        assert np.array_equal(pipelined(device, a, b, defines=defines), a @ b.T)
        assert device.counters is not None
        counts[name] = simulated(device.counters)
    requests = 4 * 2 * 2 * 4  # warps, tiles, halves, loads
    assert counts["swizzled"][LDSM] == counts["plain"][LDSM] == requests
    assert counts["swizzled"][LDSM_WAVES] == 4 * requests
    assert counts["swizzled"][LDSM_CONFLICTS] == counts["swizzled"][LD_CONFLICTS] == 0
    assert counts["plain"][LDSM_WAVES] == 16 * requests  # rows of 64 bytes: four of eight meet in each bank
    assert counts["plain"][LDSM_CONFLICTS] == counts["plain"][LD_CONFLICTS] == 12 * requests
    assert counts["plain"][TENSOR] == 4 * 2 * 2 * 8


def test_tensor_instructions_have_their_own_class() -> None:
    device = SimDevice(count=True)
    pipelined(device, whole(18, 64, 256), whole(19, 64, 256))
    assert device.counters is not None
    mix = simulated_mix(device.counters)
    assert mix["tensor"] == 4 * 8 * 2 * 8
    assert mix["shared load"] == 4 * 8 * 2 * 4
    assert mix["multiply-add"] == 0
    sass = disassemble(compiled("pipelined", "sm_90", (("STAGES", "3"),)))
    machine, trips = machine_mix(device.counters, sass)
    assert machine["tensor"] == mix["tensor"]
    assert trips > 0
    checks = {check.name: check for check in cross_check(device.counters, sass)}
    assert checks["LDSM.128"].simulated == checks["LDSM.128"].machine == 8
    assert checks["LDSM.128"].state == "equal"
