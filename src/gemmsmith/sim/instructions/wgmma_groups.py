"""Groups of wgmma, its fence, and setmaxnreg: what a warpgroup executes around its products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record, no_form
from gemmsmith.sim.instructions.warp_registers import check_whole
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, Refused, literal, operands
from gemmsmith.sim.lowering.traits import Bundling, Wait
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import WgmmaRegisters
from gemmsmith.sim.waits.register_pool import RegisterRequest
from gemmsmith.sim.waits.wgmma_products import WgmmaProducts


def _lower_plain(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    del code
    operands(i, 0)
    return Draft(None)


def _commit(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    del step
    machine.unit(WgmmaProducts).commit(lanes)


@dataclass(frozen=True)
class GroupWait:
    """How many of the latest groups may still be in flight."""

    allowed: int
    polls: bool = False

    def arrive(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
        """Waiting changes nothing."""

    def ready(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> Array:
        check_whole(machine, step, lanes)
        return machine.unit(WgmmaProducts).ready(lanes, self.allowed)

    def describe(self, machine: Execution, step: Bundle[Any], lane: int) -> str:
        del machine, lane
        return f"{step.traits.called} never completes: another warp of the warpgroup has not issued the same wgmma"


def _lower_wait(code: Lowering, i: Instruction, _: None) -> Draft[GroupWait]:
    del code
    return Draft(GroupWait(literal(*operands(i, 1))))


def _wait(machine: Execution, step: Bundle[GroupWait], lanes: Lanes) -> None:
    products = machine.unit(WgmmaProducts)
    products.wait(lanes, step.detail.allowed)
    if machine.shadow is not None or machine.late_copies:
        machine.unit(WgmmaRegisters).waited(lanes, products.unwaited)


def _fence(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    del step
    machine.unit(WgmmaRegisters).fence(lanes)


def _more(m: Modifiers) -> bool:
    return m["action"] == "inc"


def _lower_registers(code: Lowering, i: Instruction, more: bool) -> Draft[RegisterRequest]:
    del code
    count = literal(*operands(i, 1))
    if count % 8 or not 24 <= count <= 256:
        raise Refused
    return Draft(RegisterRequest(count, more))


def _take_registers(machine: Execution, step: Bundle[RegisterRequest], lanes: Lanes) -> None:
    step.detail.take(machine, lanes)


_WARP: dict[str, Any] = {"waits_on": Wait.WARP, "bundling": Bundling.BOUNDARY, "aligned": True}

RECORDS = (
    Record("wgmma.fence.sync.aligned", decode=no_form, lower=_lower_plain, execute=_fence, called="wgmma.fence",
           **_WARP),
    Record("wgmma.commit_group.sync.aligned", decode=no_form, lower=_lower_plain, execute=_commit,
           called="wgmma.commit_group", **_WARP),
    Record("wgmma.wait_group.sync.aligned", decode=no_form, lower=_lower_wait, execute=_wait,
           called="wgmma.wait_group", **{**_WARP, "waits_on": Wait.EVENT, "whole": True}),
    Record("setmaxnreg.action.sync.aligned.u32", where={"action": "inc dec"}, decode=_more, lower=_lower_registers,
           execute=_take_registers, called="setmaxnreg", **{**_WARP, "waits_on": Wait.EVENT, "whole": True}),
)  # fmt: skip
