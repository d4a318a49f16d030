"""Instructions by which the lanes of a warp learn about each other: vote, match, redux, elect and activemask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.lanewise import COMPARE, optional_slots
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record, no_form
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, operands
from gemmsmith.sim.lowering.traits import Bundling, Wait
from gemmsmith.sim.ptx.syntax import Instruction, Negated
from gemmsmith.sim.ptx.types import DTYPES, Array
from gemmsmith.sim.wave import WARP

_BITS = np.uint64(1) << np.arange(WARP, dtype=np.uint64)


class _Warps:
    """The lanes that execute an instruction, with their member masks, and values laid out by warp."""

    def __init__(self, machine: Execution, lanes: Lanes) -> None:
        self.mine = machine.indices(lanes)
        self.lane = machine.thread[self.mine] % WARP
        warps, self.row = np.unique(machine.warp[self.mine], return_inverse=True)
        self.count = len(warps)
        self.present = self.mask_of(np.ones(self.mine.size, bool))

    def mask_of(self, holds: Array) -> Array:
        """For each of the lanes, the mask of those of its warp for which something holds."""
        table = np.zeros((self.count, WARP), bool)
        table[self.row, self.lane] = holds
        masks: Array = (table.astype(np.uint64) @ _BITS).astype(np.uint32)
        mine: Array = masks[self.row]
        return mine

    def values(self, mine: Array) -> Array:
        """For each of the lanes, a row with the values of its whole warp."""
        table = np.zeros((self.count, WARP), mine.dtype)
        table[self.row, self.lane] = mine
        rows: Array = table[self.row]
        return rows

    def members(self, masks: Array) -> Array:
        """For each of the lanes, which lanes of its warp take part: those of its mask that are here."""
        both = (masks & self.present).astype(np.uint64)
        takes_part: Array = (both[:, None] & _BITS[None, :]) != 0
        return takes_part


def _masks(machine: Execution, step: Bundle[Any], lanes: Lanes) -> Array:
    return machine.spread(machine.fetch(step.sources[-1], lanes), lanes).astype(np.uint32)


@dataclass(frozen=True)
class Vote:
    """What a vote asks, and whether its predicate is negated."""

    mode: str
    negated: bool = False


def _lower_vote(code: Lowering, i: Instruction, mode: str) -> Draft[Vote]:
    target, predicate, members = operands(i, 3)
    negated = isinstance(predicate, Negated)
    register = predicate.register if isinstance(predicate, Negated) else predicate
    return Draft(Vote(mode, negated), (code.slot(target, "b32" if mode == "ballot" else "pred"),),
                 (code.source(register, "pred"), code.source(members, "u32")))  # fmt: skip


def _vote(machine: Execution, step: Bundle[Vote], lanes: Lanes) -> None:
    warps, masks = _Warps(machine, lanes), _masks(machine, step, lanes)
    holds = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    votes = warps.mask_of(~holds if step.detail.negated else holds) & masks
    everybody = warps.present & masks
    results = {"ballot": votes, "any": votes != 0, "all": votes == everybody,
               "uni": (votes == 0) | (votes == everybody)}  # fmt: skip
    machine.put(step.targets[0], lanes, results[step.detail.mode])


def _lower_match(code: Lowering, i: Instruction, kind: str) -> Draft[None]:
    target, value, members = operands(i, 3)
    return Draft(None, (code.slot(target, "b32"),), (code.source(value, kind), code.source(members, "u32")))


def _match_any(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    warps, masks = _Warps(machine, lanes), _masks(machine, step, lanes)
    value = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    same = (warps.values(value) == value[:, None]) & warps.members(masks)
    machine.put(step.targets[0], lanes, (same.astype(np.uint64) @ _BITS).astype(np.uint32))


def _lower_match_all(code: Lowering, i: Instruction, kind: str) -> Draft[None]:
    """With one result or two: the mask, and whether all have the same value."""
    target, *rest = operands(i, 3, 4)
    predicate, (value, members) = rest[:-2], rest[-2:]
    targets = optional_slots(code, (target, *predicate), ("b32", "pred")[: 1 + len(predicate)])
    return Draft(None, targets, (code.source(value, kind), code.source(members, "u32")))


def _match_all(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    warps, masks = _Warps(machine, lanes), _masks(machine, step, lanes)
    value = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    agree = ((warps.values(value) == value[:, None]) | ~warps.members(masks)).all(axis=1)
    results = (np.where(agree, masks & warps.present, np.uint32(0)), agree)
    for target, result in zip(step.targets, results, strict=False):
        machine.put(target, lanes, result)


_REDUCE: dict[str, Callable[..., Array]] = {
    "add": np.add.reduce, "min": np.minimum.reduce, "max": np.maximum.reduce, "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce, "xor": np.bitwise_xor.reduce,
}  # fmt: skip


@dataclass(frozen=True)
class Reduction:
    """A reduction over the lanes of a member mask, of a PTX type."""

    op: str
    kind: str

    @property
    def neutral(self) -> int:
        limits = np.iinfo(DTYPES[self.kind])
        return {"min": limits.max, "max": limits.min, "and": limits.max}.get(self.op, 0)


def _lower_redux(code: Lowering, i: Instruction, form: Reduction) -> Draft[Reduction]:
    target, value, members = operands(i, 3)
    sources = (code.source(value, form.kind), code.source(members, "u32"))
    return Draft(form, (code.slot(target, form.kind),), sources)


def _redux(machine: Execution, step: Bundle[Reduction], lanes: Lanes) -> None:
    warps, masks, form = _Warps(machine, lanes), _masks(machine, step, lanes), step.detail
    value = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    kind = DTYPES[form.kind]
    chosen = np.where(warps.members(masks), warps.values(value), kind.type(form.neutral))
    machine.put(step.targets[0], lanes, _REDUCE[form.op](chosen, axis=1, dtype=kind)
                if form.op == "add" else _REDUCE[form.op](chosen, axis=1))  # fmt: skip


def _lower_elect(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    target, predicate, members = operands(i, 3)
    targets = optional_slots(code, (target, predicate), ("b32", "pred"))
    return Draft(None, targets, (code.source(members, "u32"),))


def _elect(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    """The leader is the first lane of the mask."""
    warps, masks = _Warps(machine, lanes), _masks(machine, step, lanes)
    leader = warps.members(masks).argmax(axis=1)
    machine.put(step.targets[0], lanes, leader.astype(np.uint32))
    machine.put(step.targets[1], lanes, leader == warps.lane)


def _lower_active(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    return Draft(None, (code.slot(operands(i, 1)[0], "b32"),))


def _active(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    machine.put(step.targets[0], lanes, _Warps(machine, lanes).present)


def _mode(m: Modifiers) -> str:
    return m["mode"]


def _type(m: Modifiers) -> str:
    return m["type"]


def _reduction(m: Modifiers) -> Reduction:
    return Reduction(m["op"], m["type"])


_WORDS = {"type": "b32 b64"}

RECORDS = (
    Record("vote.sync.mode.pred", where={"mode": "all any uni"}, decode=_mode, lower=_lower_vote, execute=_vote,
           called="vote.sync", waits_on=Wait.MEMBERS, bundling=Bundling.BOUNDARY, counts=COMPARE),
    Record("vote.sync.mode.b32", where={"mode": "ballot"}, decode=_mode, lower=_lower_vote, execute=_vote,
           called="vote.sync", waits_on=Wait.MEMBERS, bundling=Bundling.BOUNDARY, counts=COMPARE),
    Record("match.any.sync.type", where=_WORDS, decode=_type, lower=_lower_match, execute=_match_any,
           called="match.sync", waits_on=Wait.MEMBERS, bundling=Bundling.BOUNDARY),
    Record("match.all.sync.type", where=_WORDS, decode=_type, lower=_lower_match_all, execute=_match_all,
           called="match.sync", waits_on=Wait.MEMBERS, bundling=Bundling.BOUNDARY),
    Record("redux.sync.op.type", where={"op": "add min max", "type": "u32 s32"}, decode=_reduction, lower=_lower_redux,
           execute=_redux, called="redux.sync", waits_on=Wait.MEMBERS, bundling=Bundling.BOUNDARY),
    Record("redux.sync.op.type", where={"op": "and or xor", "type": "b32"}, decode=_reduction, lower=_lower_redux,
           execute=_redux, called="redux.sync", waits_on=Wait.MEMBERS, bundling=Bundling.BOUNDARY),
    Record("elect.sync", decode=no_form, lower=_lower_elect, execute=_elect, called="elect.sync", waits_on=Wait.MEMBERS,
           bundling=Bundling.BOUNDARY),
    Record("activemask.b32", decode=no_form, lower=_lower_active, execute=_active, bundling=Bundling.BOUNDARY),
)  # fmt: skip
