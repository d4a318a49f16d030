"""Every simulated rung gives the same bits from its machine code as from its PTX; unknown code is refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.errors import UnknownInstructionError, UnsupportedError
from gemmsmith.fills import operands
from gemmsmith.kernel.spec import Addresses
from gemmsmith.ladder.registry import rung_named, simulated_rungs
from gemmsmith.problem import FP32, DType, Problem
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.sass.device import MachineDevice
from gemmsmith.sim.sass.program import lower_routine
from gemmsmith.sim.sass.reader import Routine, read_instruction

SHAPE = (67, 45, 39)  # a multiple of no tile
ARCHITECTURES = ["sm_80", "sm_86", "sm_89", "sm_90"]
PAIRS = [(spec.name, arch) for spec in simulated_rungs() for arch in ARCHITECTURES
         if arch == "sm_90" or not spec.arch_specific]  # fmt: skip


def product(device: SimDevice, name: str, dtype: DType | None = None) -> NDArray[np.uint8]:
    spec = rung_named(name)
    out = FP32 if FP32 in spec.out_dtypes else spec.out_dtypes[0]
    problem = Problem(*SHAPE, dtype or spec.dtypes[0], out)
    data = operands(problem, "integers" if spec.prologue is not None else "normal", seed=0)
    places = Addresses(*(upload(device, values) for values in (data.a, data.b, data.c)))
    workspace = device.allocate(workspace_bytes(spec, spec.config(), problem, places) or 1)
    for step in bind(device, spec, spec.config(), problem, places, workspace):
        device.launch(step.loaded, step.launch)
    return device.read(places.c, data.c.nbytes)


def check(name: str, arch: str, dtype: DType | None = None) -> None:
    expected, found = product(SimDevice(arch), name, dtype), product(MachineDevice(arch), name, dtype)
    assert expected.any()
    assert (expected == found).all()


@pytest.mark.parametrize(("name", "arch"), [("shared_tile", "sm_86"), ("mma_swizzled", "sm_90")])
def test_two_rungs(name: str, arch: str) -> None:
    check(name, arch)


@pytest.mark.parametrize(
    ("name", "arch"), [("wgmma_cluster", "sm_90"), ("async_copy", "sm_80"), ("simt_best", "sm_89")]
)
def test_three_more(name: str, arch: str) -> None:
    check(name, arch)


@pytest.mark.parametrize(("name", "arch"), PAIRS)
def test_every_rung_on_every_architecture(name: str, arch: str) -> None:
    for dtype in rung_named(name).dtypes:
        check(name, arch, dtype)


def test_an_unknown_instruction_is_refused_by_name() -> None:
    strange = read_instruction("FROB.WIDE R2, R3", 0, 0, "mine.cu", 7)
    with pytest.raises(UnknownInstructionError, match=r"machine instruction 'FROB\.WIDE' .*mine\.cu:7"):
        lower_routine(Routine("k", (strange,), ()), 90, {}, 0, 0, 0)
    modified = read_instruction("FADD.FROB R2, R3, R4", 0, 0)
    with pytest.raises(UnknownInstructionError, match=r"'FADD\.FROB'"):
        lower_routine(Routine("k", (modified,), ()), 90, {}, 0, 0, 0)
    special = read_instruction("S2R R2, SR_FROB", 0, 0)
    with pytest.raises(UnknownInstructionError, match="special register 'SR_FROB'"):
        lower_routine(Routine("k", (special,), ()), 90, {}, 0, 0, 0)


def test_an_architecture_that_is_not_executed_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="sm_120"):
        MachineDevice("sm_120").load_cubin(b"", "k", "sm_120")
