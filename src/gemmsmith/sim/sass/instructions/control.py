"""Branches, convergence, barriers, exits and calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.barrier import Meet, Vote, WholeBlock
from gemmsmith.sim.instructions.record import Draft, nothing
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Branch, Slot
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.lowering.traits import Bundling, Counted, Flow, Mix, Profiled, Traits, Wait
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.sass import convergence
from gemmsmith.sim.sass.code import Code
from gemmsmith.sim.sass.meaning import Part, lanewise, modelled, ptx
from gemmsmith.sim.sass.record import Opcode
from gemmsmith.sim.sass.syntax import Immediate, Label, MachineInstruction, Operand, Register
from gemmsmith.sim.wave import WARP

_STAYS = Traits(bundling=Bundling.BOUNDARY)
_BRANCH = Traits(called="BRA", flow=Flow.BRANCH, bundling=Bundling.BOUNDARY, counts=Counted(Profiled(Mix.BRANCH)))
_EXIT = Traits(flow=Flow.EXIT, bundling=Bundling.BOUNDARY, counts=Counted(Profiled(Mix.BRANCH)))
_SYNC = Traits(called="BSYNC", waits_on=Wait.EVENT, bundling=Bundling.BOUNDARY)
_JUMP = Traits(called="CALL", flow=Flow.JUMP, bundling=Bundling.BOUNDARY, counts=Counted(Profiled(Mix.BRANCH)))


def _both(a: Any, b: Any) -> Any:
    return np.logical_and(a, b)


def _not_first(a: Any, b: Any) -> Any:
    return np.logical_and(np.logical_not(a), b)


def _condition(code: Code, i: MachineInstruction, operand: Register) -> tuple[Slot, bool] | None:
    """The guard of a branch that also has a predicate among its operands; None if only the instruction's counts."""
    if operand.number is None:
        if operand.sign == "!":
            raise Refused
        return None
    row = code.row(operand.file, operand.number, "pred")
    if i.guard is None or i.guard.number is None:
        return row, operand.sign == "!"
    target = code.unused("pred")
    given: list[Any] = [(Register(i.guard.file, i.guard.number, i.guard.sign), "pred"),
                        (Register(operand.file, operand.number, operand.sign), "pred")]  # fmt: skip
    part = code.apply(i, _both, [(target, "pred")], given)
    code.before.append(lanewise(part.draft.detail, part.draft.targets, part.draft.sources, counted=False))
    return target, False


def _bra(code: Code, i: MachineInstruction) -> list[Part]:
    *conditions, label = i.operands
    if not isinstance(label, Label) or len(conditions) > 1:
        raise Refused
    guard = None
    if "ANY" in i.modifiers:
        return _bra_any(code, i, conditions, label)
    if "DIV" in i.modifiers or "CONV" in i.modifiers:
        return _bra_div(code, i, conditions, label)
    if conditions:
        (condition,) = conditions
        if not isinstance(condition, Register) or not condition.predicate:
            raise Refused
        guard = _condition(code, i, condition)
    return _conditional(Part(_BRANCH, nothing, Draft(Branch(label.name)), guard=guard))


def _bra_div(code: Code, i: MachineInstruction, masks: list[Operand], label: Label) -> list[Part]:
    """Taken unless exactly the lanes of a mask are together; with .CONV, if they are."""
    if i.guard is not None or len(masks) != 1:
        raise Refused
    target = code.unused("pred")
    part = code.apply(i, _same, [(code.unused("u32"), "u32")], [(masks[0], "u32")])
    asked = Part(_STAYS, _apart, Draft(None, (target,), part.draft.targets), counted=False)
    code.before += [replace(part, counted=False), asked]
    return _conditional(Part(_BRANCH, nothing, Draft(Branch(label.name)), guard=(target, "CONV" in i.modifiers)))


def _bra_any(code: Code, i: MachineInstruction, conditions: list[Operand], label: Label) -> list[Part]:
    """Taken by all lanes of a warp if the guard of any holds."""
    if conditions or i.guard is None or i.guard.number is None:
        raise Refused
    target = code.unused("pred")
    source = code.row(i.guard.file, i.guard.number, "pred")
    asked = Part(_STAYS, _any, Draft(i.guard.sign == "!", (target,), (source,)), counted=False, guarded=False)
    code.before.append(asked)
    return _conditional(Part(_BRANCH, nothing, Draft(Branch(label.name)), guard=(target, False)))


def _any(machine: Execution, step: Bundle[bool], lanes: Lanes) -> None:
    mine = machine.indices(lanes)
    holds = machine.spread(machine.fetch(step.sources[0], lanes), lanes) != step.detail
    found = np.zeros(int(machine.warp[-1]) + 1, bool)
    found[machine.warp[mine[holds]]] = True
    machine.put(step.targets[0], lanes, found[machine.warp[mine]])


def _conditional(part: Part) -> list[Part]:
    """A part with a condition of its own; what counts as executed, and for whom, is the instruction's guard."""
    if part.guard is None:
        return [part]
    return [Part(_STAYS, nothing, Draft(None)), replace(part, counted=False)]


def _apart(machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
    """Whether the lanes of each warp that are here are others than the mask's."""
    mine = machine.indices(lanes)
    bits = np.left_shift(np.int64(1), machine.thread[mine] % WARP)
    here = np.bincount(machine.warp[mine], weights=bits, minlength=int(machine.warp[-1]) + 1).astype(np.int64)
    masks = machine.spread(machine.fetch(step.sources[0], lanes), lanes).astype(np.int64)
    machine.put(step.targets[0], lanes, here[machine.warp[mine]] != masks)


def _exit(code: Code, i: MachineInstruction) -> list[Part]:
    guard = None
    if i.operands:
        (condition,) = i.operands
        if not isinstance(condition, Register):
            raise Refused
        guard = _condition(code, i, condition)
    return _conditional(Part(_EXIT, nothing, Draft(None), guard=guard))


def barrier_number(operand: Operand) -> int:
    if not isinstance(operand, Register) or operand.file != "B" or operand.number is None:
        raise Refused
    return operand.number


def _bssy(code: Code, i: MachineInstruction) -> Part:
    del code
    return Part(_STAYS, convergence.begin, Draft(barrier_number(i.operands[0])))


def _bsync(code: Code, i: MachineInstruction) -> Part:
    del code
    (barrier,) = [o for o in i.operands if not (isinstance(o, Register) and o.predicate)]
    return Part(_SYNC, convergence.finish, Draft(convergence.Sync(barrier_number(barrier))))


def _break(code: Code, i: MachineInstruction) -> list[Part]:
    *conditions, barrier = i.operands
    guard = None
    for condition in conditions:
        if not isinstance(condition, Register):
            raise Refused
        guard = _condition(code, i, condition)
    return _conditional(Part(_STAYS, convergence.leave, Draft(barrier_number(barrier)), guard=guard))


def _bmov(code: Code, i: MachineInstruction) -> Part:
    target, source = i.operands
    if isinstance(target, Register) and target.file == "B":
        return Part(_STAYS, convergence.restore, Draft(barrier_number(target), (), code.words(source, 1)))
    return Part(_STAYS, convergence.save, Draft(barrier_number(source), code.targets(target, "u32")))


# -- barriers of blocks and warps ---------------------------------------------------------------------

_VOTES = {"POPC": "popc", "AND": "and", "OR": "or"}


def _bar(code: Code, i: MachineInstruction) -> Part:
    numbers = [o for o in i.operands if not (isinstance(o, Register) and o.predicate)]
    predicates = [o for o in i.operands if isinstance(o, Register) and o.predicate]
    sources = [code.source(i, number, "u32")[0] for number in numbers]
    if len(sources) not in (1, 2):
        raise Refused
    if "RED" in i.modifiers:
        return _bar_red(code, i, predicates, sources)
    if predicates:
        raise Refused
    if "ARV" in i.modifiers:
        return modelled("bar.arrive", Draft(Meet(), sources=tuple(sources)))
    if len(sources) == 2:
        return modelled("bar.sync", Draft(Meet(), sources=tuple(sources)), 1)
    return modelled("bar.sync", Draft(WholeBlock(), sources=tuple(sources)))


def _bar_red(code: Code, i: MachineInstruction, predicates: list[Register], sources: list[Any]) -> Part:
    """The result is fetched by B2R."""
    vote = next(_VOTES[m] for m in i.modifiers if m in _VOTES)
    (voted,) = predicates
    row = np.bool_(True) if voted.number is None else code.row(voted.file, voted.number, "pred")
    kind = "u32" if vote == "popc" else "pred"
    name = f"bar.red.{vote}.{'u32' if vote == 'popc' else 'pred'}"
    given = Vote(vote, voted.sign == "!")
    detail: Any = WholeBlock(given) if len(sources) == 1 else Meet(given)
    draft = Draft(detail, (code.hidden(f"barrier result {kind}", kind),), (*sources, row))
    return modelled(name, draft, len(sources) - 1)


def _b2r(code: Code, i: MachineInstruction) -> Part:
    target, *rest = i.operands
    if rest:
        (predicate,) = rest
        return code.apply(i, _same, [(predicate, "pred")], [(code.hidden("barrier result pred", "pred"), "pred")])
    return code.apply(i, _same, [(target, "u32")], [(code.hidden("barrier result u32", "u32"), "u32")])


def _same(a: Any) -> Any:
    return a


def _warpsync(code: Code, i: MachineInstruction) -> Part:
    mask: Any = np.uint32(0xFFFFFFFF)
    if i.operands:
        mask = code.source(i, i.operands[0], "u32")[0]
    return modelled("bar.warp.sync", Draft(None, sources=(mask,)))


def _fence(code: Code, i: MachineInstruction) -> Part:
    """Memory is consistent here at all times."""
    del code, i
    return Part(_STAYS, nothing, Draft(None))


def _nothing(code: Code, i: MachineInstruction) -> Part:
    del code, i
    return Part(Traits(), nothing, Draft(None))


# -- calls --------------------------------------------------------------------------------------------


def _call(code: Code, i: MachineInstruction) -> Part:
    """The return address is in a register that code before the call writes; the call itself only jumps."""
    if "ABS" in i.modifiers:
        return _call_outside(code, i)
    target = i.operands[-1]
    if not isinstance(target, Label):
        raise Refused
    return Part(_BRANCH, nothing, Draft(Branch(target.name)))


def _to_address(machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
    """Each lane goes on at the instruction whose offset a register holds."""
    offsets = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    machine.targets[machine.indices(lanes)] = step.detail.positions_of(offsets)


def _ret(code: Code, i: MachineInstruction) -> Part:
    """The register holds the offset of the instruction to return to, within the kernel's code."""
    register = i.operands[0]
    return Part(_JUMP, _to_address, Draft(code.places, (), code.words(register, 1)))


def _outside(machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
    del machine, lanes
    raise LaneFault(0, f"{step.first.instruction.text}: functions outside the kernel (printf, assert, malloc) are not "
                    "executed as machine code")  # fmt: skip


def _call_outside(code: Code, i: MachineInstruction) -> Part:
    """A function that the driver links in; reaching it is a fault that names it."""
    del code, i
    return Part(_STAYS, _outside, Draft(None))


def _lepc(code: Code, i: MachineInstruction) -> Part:
    """The address of the next instruction, from which calls of functions outside compute theirs."""
    return lanewise(_pair, code.targets(i.operands[0], "u32", 2), (np.uint32(i.offset + 16),))


def _pair(low: Any) -> tuple[Any, Any]:
    return low, np.uint32(0)


def _trap(code: Code, i: MachineInstruction) -> Part:
    del code, i
    return Part(ptx("trap").record, ptx("trap").record.execute, Draft(None))


def literal(operand: Operand) -> int:
    if not isinstance(operand, Immediate) or operand.value is None:
        raise Refused
    return operand.value


RECORDS = (
    Opcode("BRA", _bra, "DIV CONV ANY", "U INC DEC"),
    Opcode("EXIT", _exit),
    Opcode("BSSY", _bssy, "", "RECONVERGENT RELIABLE"),
    Opcode("BSYNC", _bsync, "", "RECONVERGENT RELIABLE"),
    Opcode("BREAK", _break, "", "RECONVERGENT RELIABLE"),
    Opcode("BMOV", _bmov, "", "32 64 CLEAR PQUAD"),
    Opcode("BAR", _bar, "SYNC ARV RED POPC AND OR", "DEFER_BLOCKING ARRIVE"),
    Opcode("B2R", _b2r, "RESULT"),
    Opcode("WARPSYNC", _warpsync, "", "ALL"),
    Opcode("MEMBAR ERRBAR CGAERRBAR CCTL", _fence, "*"),
    Opcode("NOP YIELD NANOSLEEP PREEXIT ACQBULK CCTLL", _nothing, "*"),
    Opcode("CALL", _call, "REL ABS NOINC"),
    Opcode("LEPC", _lepc),
    Opcode("RET", _ret, "REL NODEC"),
    Opcode("BPT", _trap, "*"),
)  # fmt: skip
