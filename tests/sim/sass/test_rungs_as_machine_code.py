"""Every simulated rung gives the same bits from its machine code as from its PTX; unknown code is refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.errors import UnknownInstructionError, UnsupportedError
from gemmsmith.fills import operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named, simulated_rungs
from gemmsmith.problem import BF16, FP32, DType, Problem
from gemmsmith.run.device import Step
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
    return launched(device, spec, spec.config(), Problem(*SHAPE, dtype or spec.dtypes[0], out))[0]


def launched(
    device: SimDevice, spec: KernelSpec, config: Config, problem: Problem
) -> tuple[NDArray[np.uint8], tuple[Step, ...]]:
    """The bytes of the result, and the launches that gave it."""
    data = operands(problem, "integers" if spec.prologue is not None else "normal", seed=0)
    places = Addresses(*(upload(device, values) for values in (data.a, data.b, data.c)))
    workspace = device.allocate(workspace_bytes(spec, config, problem, places) or 1)
    steps = bind(device, spec, config, problem, places, workspace)
    for step in steps:
        device.launch(step.loaded, step.launch)
    return device.read(places.c, data.c.nbytes), steps


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


@pytest.mark.parametrize("out", [FP32, BF16])
def test_stores_by_tma(out: DType) -> None:
    """Boxes in turn: a store waits until the one before the last has read shared memory."""
    spec = rung_named("wgmma_cluster")
    config = spec.config({"BM": 64, "BN": 128, "CONSUMERS": 1, "CLUSTER_M": 1, "CLUSTER_N": 1, "STORE_MODE": 2})
    problem = Problem(72, 200, 64, BF16, out)
    found, steps = launched(MachineDevice("sm_90"), spec, config, problem)
    assert (found == launched(SimDevice("sm_90"), spec, config, problem)[0]).all()
    opcodes = {i.opcode for step in steps for i in step.loaded.lowered.instructions}
    assert {"UTMASTG", "UTMACMDFLUSH"} <= opcodes


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
