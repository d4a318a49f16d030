"""Barriers of blocks and of warps, and fences.

bar.sync and bar.red without a count are for all live threads of a block, whole warps at any place. With one, as many
threads meet at a barrier of that number as the count says, from any place in the program; those that execute bar.arrive
do not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record, no_form, nothing
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Slot, Source
from gemmsmith.sim.lowering.places import Lowering, Refused, operands
from gemmsmith.sim.lowering.traits import Bundling, Counted, Executed, Mix, Profiled, Wait
from gemmsmith.sim.ptx.syntax import Instruction, Negated, Operand
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import ProxyFences
from gemmsmith.sim.waits.grid_dependency import GridDependency
from gemmsmith.sim.waits.mbarriers import MBarriers
from gemmsmith.sim.waits.named_barriers import NamedBarriers

# -- all threads of a block ---------------------------------------------------------------------------


@dataclass(frozen=True)
class WholeBlock:
    """A barrier of a number (the first source) for all live threads. ``vote``: that of bar.red.

    ``reduction`` is what all who meet must have in common.
    """

    vote: Vote | None = None

    @property
    def reduction(self) -> str:
        return "" if self.vote is None else self.vote.reduction

    def arrive(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
        barriers = machine.unit(NamedBarriers)
        barriers.check_numbers(np.asarray(machine.fetch(step.sources[0], lanes)).reshape(-1))
        if self.vote is not None:
            barriers.votes[lanes] = self.vote.predicate(machine, step, lanes)


def _lower_block(code: Lowering, i: Instruction, _: None) -> Draft[WholeBlock]:
    (number,) = operands(i, 1)
    return Draft(WholeBlock(), sources=(code.source(number, "u32"),))


def _pass_block(machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
    del step
    if machine.shadow is not None:
        machine.shadow.barrier(lanes)


# -- as many threads as a count says ------------------------------------------------------------------


@dataclass(frozen=True)
class Meet:
    """A barrier of a number (the first source) for a number of threads (the second). ``vote``: that of bar.red."""

    vote: Vote | None = None
    polls: bool = False

    def arrive(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
        mine, barriers = machine.indices(lanes), machine.unit(NamedBarriers)
        if self.vote is not None:
            barriers.votes[mine] = self.vote.predicate(machine, step, lanes)
        barriers.arrive(mine, *_named(machine, step, lanes), step.first, waits=True)

    def ready(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> Array:
        del step
        return machine.unit(NamedBarriers).free[lanes]

    def describe(self, machine: Execution, step: Bundle[Any], lane: int) -> str:
        numbers, _ = _named(machine, step, np.array([lane]))
        barriers, key = machine.unit(NamedBarriers), (int(machine.block[lane]), int(numbers[0]))
        meeting, hasty = barriers.open[key], barriers.hasty.get(key)
        twice = "" if hasty is None else (f"; before, thread {machine.thread_name(hasty)} arrived twice (bar.arrive) "
                                          "while others had not come, and was counted in their place: it must wait for "
                                          "them, at a barrier at which they arrive when they are done with the "
                                          "data")  # fmt: skip
        return f"barrier {key[1]} never completes: {meeting.arrived} of {meeting.count} threads arrived{twice}"


def _named(machine: Execution, step: Bundle[Any], lanes: Lanes) -> tuple[Array, Array]:
    """(numbers of barriers, counts of threads)"""
    number, count = (machine.spread(machine.fetch(source, lanes), lanes) for source in step.sources[:2])
    return number, count


def _lower_named(code: Lowering, i: Instruction, _: None) -> Draft[Meet]:
    number, count = operands(i, 2)
    return Draft(Meet(), sources=(code.source(number, "u32"), code.source(count, "u32")))


def _pass_named(machine: Execution, step: Bundle[Meet], lanes: Lanes) -> None:
    del step
    machine.unit(NamedBarriers).passed(machine.indices(lanes))


def _arrive(machine: Execution, step: Bundle[Meet], lanes: Lanes) -> None:
    numbers, counts = _named(machine, step, lanes)
    machine.unit(NamedBarriers).arrive(machine.indices(lanes), numbers, counts, step.first, waits=False)


# -- bar.red ------------------------------------------------------------------------------------------

_REDUCTIONS: dict[str, Callable[[Array], Any]] = {"and": np.all, "or": np.any, "popc": np.count_nonzero}


@dataclass(frozen=True)
class Vote:
    """What is made of the predicates of all threads that meet; the predicate is the last source."""

    reduction: str
    negated: bool = False

    def predicate(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> Array:
        values = machine.spread(machine.fetch(step.sources[-1], lanes), lanes).astype(bool)
        return ~values if self.negated else values

    def of(self, values: Array) -> Any:
        return _REDUCTIONS[self.reduction](values)


def _decode_vote(m: Modifiers) -> str:
    if (m["reduction"] == "popc") != (m["type"] == "u32"):
        raise Refused
    return m["reduction"]


def predicate_source(code: Lowering, operand: Operand) -> tuple[Source, bool]:
    """A predicate operand, and whether it is negated."""
    if isinstance(operand, Negated):
        return code.slot(operand.register, "pred"), True
    return code.source(operand, "pred"), False


def _lower_vote(code: Lowering, i: Instruction, reduction: str) -> Draft[WholeBlock]:
    result, number, voted = operands(i, 3)
    source, negated = predicate_source(code, voted)
    return Draft(WholeBlock(Vote(reduction, negated)), (_result(code, result, reduction),),
                 (code.source(number, "u32"), source))  # fmt: skip


def _lower_named_vote(code: Lowering, i: Instruction, reduction: str) -> Draft[Meet]:
    result, number, count, voted = operands(i, 4)
    source, negated = predicate_source(code, voted)
    return Draft(Meet(Vote(reduction, negated)), (_result(code, result, reduction),),
                 (code.source(number, "u32"), code.source(count, "u32"), source))  # fmt: skip


def _result(code: Lowering, operand: Operand, reduction: str) -> Slot:
    return code.slot(operand, "u32" if reduction == "popc" else "pred")


def _vote(machine: Execution, step: Bundle[WholeBlock], lanes: Lanes) -> None:
    """All live threads of a block have arrived, some perhaps at other places."""
    vote, votes, blocks = step.detail.vote, machine.unit(NamedBarriers).votes, machine.block[lanes]
    assert vote is not None
    found = np.zeros(blocks.size, np.uint32)
    for block in np.unique(blocks):
        found[blocks == block] = vote.of(votes[machine.alive & (machine.block == block)])
    machine.put(step.targets[0], lanes, found if vote.reduction == "popc" else found != 0)
    _pass_block(machine, step, lanes)


def _named_vote(machine: Execution, step: Bundle[Meet], lanes: Lanes) -> None:
    vote, barriers, mine = step.detail.vote, machine.unit(NamedBarriers), machine.indices(lanes)
    assert vote is not None
    found = np.array([vote.of(barriers.votes[barriers.members[lane]]) for lane in mine.tolist()], np.uint32)
    machine.put(step.targets[0], lanes, found if vote.reduction == "popc" else found != 0)
    barriers.passed(mine)


# -- warps and fences ---------------------------------------------------------------------------------


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


def _fence_proxy(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    del step
    if machine.shadow is not None:
        machine.unit(ProxyFences).fence(machine.indices(lanes))


def _fence_init(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    del step
    if machine.shadow is not None:
        machine.unit(ProxyFences).fence(machine.indices(lanes), only_inits=True)
        machine.unit(MBarriers).fence(machine.indices(lanes))


def _grid_wait(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    del step
    machine.unit(GridDependency).wait(machine.indices(lanes))


# -- records ------------------------------------------------------------------------------------------

_COUNTED = Counted(Profiled(Mix.BARRIER), executed=Executed.ARRIVED)
_BLOCK: dict[str, Any] = {
    "called": "__syncthreads()", "waits_on": Wait.BLOCK, "bundling": Bundling.BOUNDARY, "counts": _COUNTED,
}  # fmt: skip
_NAMED: dict[str, Any] = {"called": "barrier", "bundling": Bundling.BOUNDARY, "partial_order": True}
_VOTES = {"reduction": "popc and or", "type": "u32 pred"}
# Memory is consistent here at all times, so a fence has nothing to do. Nor has griddepcontrol.launch_dependents:
# launches run one after another.
_FENCE: dict[str, Any] = {
    "decode": no_form, "lower": _lower_fence, "execute": nothing, "bundling": Bundling.BOUNDARY,
    "counts": Counted(executed=Executed.NEVER),
}  # fmt: skip


def _barriers(opcode: str, aligned: str) -> tuple[Record[Any, Any], ...]:
    """All kinds of barriers. ``aligned`` is the modifier: empty for those that lanes of a warp may reach apart."""
    block: dict[str, Any] = {**_BLOCK, "aligned": bool(aligned)}
    named: dict[str, Any] = {**_NAMED, "aligned": bool(aligned)}
    return (
        Record(f"{opcode}.cta?.sync{aligned}", decode=no_form, lower=_lower_block, execute=_pass_block, **block),
        Record(f"{opcode}.cta?.sync{aligned}", decode=no_form, lower=_lower_named, execute=_pass_named,
               waits_on=Wait.EVENT, counts=_COUNTED, **named),
        Record(f"{opcode}.cta?.arrive{aligned}", decode=no_form, lower=_lower_named, execute=_arrive,
               counts=Counted(Profiled(Mix.BARRIER)), **named),
        Record(f"{opcode}.cta?.red.reduction{aligned}.type", where=_VOTES, decode=_decode_vote, lower=_lower_vote,
               execute=_vote, **block),
        Record(f"{opcode}.cta?.red.reduction{aligned}.type", where=_VOTES, decode=_decode_vote,
               lower=_lower_named_vote, execute=_named_vote, waits_on=Wait.EVENT, counts=_COUNTED, **named),
    )  # fmt: skip


RECORDS = (
    *_barriers("bar", ".aligned?"),
    *_barriers("barrier", ".aligned"),
    *_barriers("barrier", ""),
    Record("bar.warp.sync", decode=no_form, lower=_lower_warp, execute=_pass_warp, called="__syncwarp()",
           waits_on=Wait.MEMBERS, bundling=Bundling.BOUNDARY, counts=Counted(executed=Executed.NEVER)),
    Record("membar.level", where={"level": "cta gl sys"}, **_FENCE),
    Record("fence.order?.scope", where={"order": "sc acq_rel acquire release", "scope": "cta cluster gpu sys"},
           **_FENCE),
    Record("fence.proxy.kind.space?", where={"kind": "alias async", "space": "global shared::cta shared::cluster"},
           **{**_FENCE, "execute": _fence_proxy}),
    Record("fence.proxy.async::generic.order.restricted.cluster",
           where={"order": "acquire release", "restricted": "sync_restrict::*"}, **_FENCE),
    Record("fence.order.restricted.cluster", where={"order": "acquire release", "restricted": "sync_restrict::*"},
           **_FENCE),
    Record("fence.mbarrier_init.release.cluster", **{**_FENCE, "execute": _fence_init}),
    Record("griddepcontrol.launch_dependents", **_FENCE),
    Record("griddepcontrol.wait", **{**_FENCE, "execute": _grid_wait, "called": "griddepcontrol.wait"}),
)  # fmt: skip
