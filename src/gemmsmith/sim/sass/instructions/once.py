"""What a warp does once, by one of its lanes: elected lanes, and uniform registers from a lane's value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gemmsmith.sim.bundle import Bundle, Operand
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.record import Draft, nothing
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Source
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.lowering.traits import Bundling, Traits
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.sass.code import Code
from gemmsmith.sim.sass.meaning import PLAIN, Part
from gemmsmith.sim.sass.record import Opcode
from gemmsmith.sim.sass.syntax import MachineInstruction, Register
from gemmsmith.sim.wave import WARP

STAYS = Traits(bundling=Bundling.BOUNDARY)
_ALONE = Traits(bundling=Bundling.ALONE)


def _leaders(machine: Execution, lanes: Lanes) -> Array:
    """Which of these lanes are the first of their warp."""
    warps = machine.warp[machine.indices(lanes)]
    first: Array = np.ones(warps.size, bool)
    first[1:] = warps[1:] != warps[:-1]
    return first


def _elect_lanes(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    machine.put(step.targets[0], lanes, _leaders(machine, lanes))


def _elect(code: Code, i: MachineInstruction) -> Part:
    target, mask, _ = i.operands
    if not isinstance(mask, Register) or mask.number is not None:
        raise Refused
    return Part(STAYS, _elect_lanes, Draft(None, code.targets(target, "pred")))


def _first_of(machine: Execution, step: Bundle[bool], lanes: Lanes) -> None:
    """Of the lanes whose predicate holds, the first of each warp."""
    mine = machine.indices(lanes)
    holds = machine.spread(machine.fetch(step.sources[0], lanes), lanes) != step.detail
    found = np.zeros(mine.size, bool)
    found[holds] = _leaders(machine, mine[holds])
    machine.put(step.targets[0], lanes, found)


def once(code: Code, i: MachineInstruction, part: Part) -> list[Part]:
    """A part that a warp executes once, by its first lane whose guard holds."""
    target = code.unused("pred")
    source: Source = np.bool_(True)
    if i.guard is not None and i.guard.number is not None:
        source = code.row(i.guard.file, i.guard.number, "pred")
    negated = i.guard is not None and i.guard.sign == "!"
    code.before.append(Part(STAYS, _first_of, Draft(negated, (target,), (source,)), counted=False, guarded=False))
    return [Part(STAYS, nothing, Draft(None)), replace(part, counted=False, guard=(target, False))]


def _broadcast(machine: Execution, step: Bundle[bool], lanes: Lanes) -> None:
    """The value of the first lane of each warp whose guard holds, in all lanes that are together. A predicate, if there
    is one, says for each of those lanes whether its own value is another, or what was in the predicate holds."""
    guard = step.sources[1]
    always = isinstance(guard, Operand) and guard.constant is not None and guard.constant != step.detail
    if always and machine.whole_warps(lanes):
        _broadcast_all(machine, step, lanes)
        return
    mine = machine.indices(lanes)
    values, guards, *before = (machine.spread(machine.fetch(source, lanes), lanes) for source in step.sources)
    holds = np.flatnonzero(guards != step.detail)
    chosen = holds[_leaders(machine, mine[holds])]
    found = np.zeros(int(machine.warp[-1]) + 1, np.uint32)
    some = np.zeros(found.size, bool)
    found[machine.warp[mine[chosen]]], some[machine.warp[mine[chosen]]] = values[chosen], True
    told = mine[some[machine.warp[mine]]]
    if told.size:
        machine.put(step.targets[0], told, found[machine.warp[told]])
    if len(step.targets) > 1 and holds.size:
        differs = values[holds] != found[machine.warp[mine[holds]]]
        machine.put(step.targets[1], mine[holds], differs | before[0][holds] if before else differs)


def _broadcast_all(machine: Execution, step: Bundle[bool], lanes: Lanes) -> None:
    """The same for whole warps, without a guard: the usual case."""
    values = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    found = np.repeat(values[::WARP], WARP)
    if len(step.targets) > 1:
        differs = values != found
        machine.put(
            step.targets[1], lanes, differs | machine.fetch(step.sources[2], lanes) if step.sources[2:] else differs
        )
    machine.put(step.targets[0], lanes, found)


def _r2ur(code: Code, i: MachineInstruction) -> list[Part]:
    *differs, target, value = i.operands
    guard: Source = np.bool_(True)
    if i.guard is not None and i.guard.number is not None:
        guard = code.row(i.guard.file, i.guard.number, "pred")
    negated = i.guard is not None and i.guard.sign == "!"
    targets, sources = code.targets(target, "u32"), (*code.source(i, value, "u32"), guard)
    for predicate in differs:
        if not isinstance(predicate, Register):
            raise Refused
        if predicate.number is not None:  # not PT
            targets += code.targets(predicate, "pred")
            if "OR" in i.modifiers:
                sources += (code.row(predicate.file, predicate.number, "pred"),)
    draft = Draft(negated, targets, sources)
    told = Part(_ALONE, _broadcast, draft, counted=False, guarded=False)
    return [Part(PLAIN, nothing, Draft(None)), told]


RECORDS = (
    Opcode("ELECT", _elect),
    Opcode("R2UR", _r2ur, "", "OR FILL"),
)
