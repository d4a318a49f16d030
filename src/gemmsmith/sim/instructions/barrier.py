"""Barriers of blocks and of warps, and fences."""

from __future__ import annotations

from typing import Any

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.record import Draft, Record, no_form, nothing
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering import Lowering, literal, operands
from gemmsmith.sim.syntax import Instruction
from gemmsmith.sim.traits import Bundling, Counted, Executed, Mix, Profiled, Wait


def _lower_block(code: Lowering, i: Instruction, _: None) -> Draft[int]:
    """The detail is the number of the barrier."""
    del code
    return Draft(literal(*operands(i, 1)))


def _pass_block(machine: Execution, step: Bundle[int], lanes: Lanes) -> None:
    del step
    if machine.shadow is not None:
        machine.shadow.barrier(lanes)


def _lower_warp(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    (members,) = operands(i, 1)
    return Draft(None, sources=(code.source(members, "u32"),))


def _pass_warp(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    del step
    if machine.shadow is not None:
        machine.shadow.warp_barrier(lanes)


def _lower_fence(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    del code
    operands(i, 0)
    return Draft(None)


_BLOCK: dict[str, Any] = {
    "decode": no_form, "lower": _lower_block, "execute": _pass_block, "called": "__syncthreads()",
    "waits_on": Wait.BLOCK, "bundling": Bundling.BOUNDARY,
    "counts": Counted(Profiled(Mix.BARRIER), executed=Executed.ARRIVED),
}  # fmt: skip
# Memory is consistent here at all times, so a fence has nothing to do. Nor has griddepcontrol: launches run one after
# another, and the one before has ended.
_FENCE: dict[str, Any] = {
    "decode": no_form, "lower": _lower_fence, "execute": nothing, "bundling": Bundling.BOUNDARY,
    "counts": Counted(executed=Executed.NEVER),
}  # fmt: skip

RECORDS = (
    Record("bar.sync.aligned?", aligned=True, **_BLOCK),
    Record("barrier.sync.aligned", aligned=True, **_BLOCK),
    Record("barrier.sync", **_BLOCK),
    Record("bar.warp.sync", decode=no_form, lower=_lower_warp, execute=_pass_warp, called="__syncwarp()",
           waits_on=Wait.MEMBERS, bundling=Bundling.BOUNDARY, counts=Counted(executed=Executed.NEVER)),
    Record("membar.level", where={"level": "cta gl sys"}, **_FENCE),
    Record("fence.order?.scope", where={"order": "sc acq_rel acquire release", "scope": "cta cluster gpu sys"},
           **_FENCE),
    Record("griddepcontrol.action", where={"action": "wait launch_dependents"}, **_FENCE),
)  # fmt: skip
