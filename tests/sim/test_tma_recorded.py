"""TMA copies on the simulator, bit for bit as an H200 made them; and the driver's rules for tensor maps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tensor_core_recording import DATA
from tma_bulk import BulkGroup, bulk_groups
from tma_cases import groups
from tma_kernels import Array, Group, run
from tma_recording import run_any, simulated, unpacked

from gemmsmith.errors import GemmsmithError, SimulationError
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.problem import FP32
from gemmsmith.run.tensor_map import check_tensor_map
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.memory.tensor_box import Box
from gemmsmith.sim.schedule import schedule_named

ARCH = "sm_90a"

with np.load(DATA / "tma.npz", allow_pickle=False) as _file:
    _NAMES = {name.partition("|")[0] for name in _file.files}
GROUPS = tuple(group for group in (*groups(), *bulk_groups()) if group.name in _NAMES)


@pytest.fixture(scope="module")
def recorded() -> dict[str, Array]:
    with np.load(DATA / "tma.npz", allow_pickle=False) as file:
        return unpacked(file)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_copies(group: Group | BulkGroup, recorded: dict[str, Array]) -> None:
    chosen = simulated(group, recorded[f"{group.name}/ran"])
    assert chosen
    found = run_any(SimDevice(ARCH), group, ARCH, chosen)
    for part in ("accepted", "image", "counted"):
        expected = recorded[f"{group.name}/{part}"]
        assert [n for n in chosen if not np.array_equal(found[part][n], expected[n])] == [], part


@pytest.mark.parametrize("group", [g for g in groups() if g.name.startswith("rules")], ids=lambda group: group.name)
def test_the_driver_refuses_the_same_maps(group: Group, recorded: dict[str, Array]) -> None:
    for case, accepted in zip(group.cases, recorded[f"{group.name}/accepted"], strict=True):
        try:
            check_tensor_map(case.map, 0x1000 + case.offset)
            ours = True
        except GemmsmithError:
            ours = False
        assert ours == accepted, case


def test_a_late_copy_is_the_same(recorded: dict[str, Array]) -> None:
    group = next(g for g in GROUPS if g.name == "multicast")
    device = SimDevice(ARCH, schedule=schedule_named("reversed", late_copies=False))
    assert np.array_equal(run_any(device, group, ARCH)["image"], recorded["multicast/image"])


def test_the_comparison_can_fail(recorded: dict[str, Array]) -> None:
    """Another swizzle or another place gives other bytes."""
    group = next(g for g in groups() if g.name == "im2col")
    case = next(c for c in group.cases if c.map.swizzle == 32)
    number = group.cases.index(case)
    for wrong in (replace(case, map=replace(case.map, swizzle=64)), replace(case, at=(8, *case.at[1:]))):
        cases = tuple(wrong if n == number else c for n, c in enumerate(group.cases))
        found = run(SimDevice(ARCH), replace(group, cases=cases), ARCH, {number})
        assert not np.array_equal(found["image"][number], recorded["im2col/image"][number])


def test_the_recording_says_where_it_comes_from(recorded: dict[str, Array]) -> None:
    assert "H200" in json.loads(recorded["metadata"].tobytes())["gpu"]


@pytest.mark.parametrize("name", ["ranks", "types", "stores"])
def test_a_box_that_does_not_begin_on_16_bytes_ends_the_kernel(name: str, recorded: dict[str, Array]) -> None:
    """None of these ran on an H200: CUDA_ERROR_ILLEGAL_INSTRUCTION."""
    group = next(g for g in GROUPS if g.name == name)
    assert isinstance(group, Group)
    astray = [n for n, case in enumerate(group.cases) if case.at[0] * case.map.dtype.itemsize % 16]
    assert not recorded[f"{name}/ran"][astray].any()
    for n in astray[:: len(astray) // 5]:
        with pytest.raises(SimulationError, match="along the innermost dimension of its tensor"):
            run(SimDevice(ARCH), group, ARCH, [n])


def test_sectors_of_a_load() -> None:
    """Nsight Compute counts those of the whole box, also where it lies outside the tensor."""
    path = Path(__file__).parents[2] / "benchmarks" / "results" / "h200_tma_sectors.json"
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        (height, width), (x, y) = row["box"], row["at"]
        box = Box(TensorMap("a tensor", FP32, (2048, 2048), (8192,), (width, height)), 0)
        assert box.sectors((x, y)) == row["metrics"]["l1tex__m_xbar2l1tex_read_sectors.sum"], row
