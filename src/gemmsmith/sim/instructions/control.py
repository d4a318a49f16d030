"""Branches, by index too, returns, exits and traps; alloca; what only passes time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.calls import CallStack
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.record import Draft, Record, no_form, nothing
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Branch
from gemmsmith.sim.lowering.places import Lowering, Refused, literal, operands
from gemmsmith.sim.lowering.traits import Bundling, Counted, Executed, Flow, Mix, Profiled
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.ptx.syntax import Instruction, Symbol
from gemmsmith.sim.special import WORKSPACE


def _lower_branch(code: Lowering, i: Instruction, _: None) -> Draft[Branch]:
    del code
    (target,) = operands(i, 1)
    if not isinstance(target, Symbol):
        raise Refused
    return Draft(Branch(target.name))


@dataclass(frozen=True)
class Targets:
    """The labels that a branch by index chooses from."""

    labels: tuple[str, ...]


def _lower_indexed(code: Lowering, i: Instruction, _: None) -> Draft[Targets]:
    index, table = operands(i, 2)
    found = dict(code.entry.tables).get(table.name) if isinstance(table, Symbol) else None
    if not found:
        raise Refused
    return Draft(Targets(found), sources=(code.source(index, "u32"),))


def _branch_by_index(machine: Execution, step: Bundle[Targets], lanes: Lanes) -> None:
    labels = step.detail.labels
    index = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    if bool((index >= len(labels)).any()):
        first = int(np.argmax(index >= len(labels)))
        raise LaneFault(first, f"brx.idx with index {int(index[first])}, and its table has {len(labels)} labels")
    positions = np.array([machine.lowered.labels[label] for label in labels])
    machine.targets[machine.indices(lanes)] = positions[index]


def _lower_exit(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    del code, i
    return Draft(None)


def _lower_return(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    """ret in a function; in the entry it ends the thread."""
    operands(i, 0)
    if not code.function:
        raise Refused
    code.frame()
    return Draft(None)


def _return(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    del step
    machine.unit(CallStack).leave(machine.indices(lanes))


def _lower_trap(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    del code
    operands(i, 0)
    return Draft(None)


def _trap(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    del lanes
    text = f"{step.first.instruction.opcode}: the kernel stopped itself"
    if WORKSPACE in machine.lowered.special and not machine.wave.workspace:
        text += "; grid.sync() needs a cooperative launch: pass cooperative=True (--cooperative)"
    raise LaneFault(0, text)


def _lower_sleep(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    return Draft(None, sources=(code.source(operands(i, 1)[0], "u32"),))


def _lower_alloca(code: Lowering, i: Instruction, _: None) -> Draft[int]:
    """The detail is the alignment; PTX's default is 8 bytes."""
    target, size, *alignment = operands(i, 2, 3)
    aligned = max(8, literal(alignment[0])) if alignment else 8
    return Draft(aligned, (code.slot(target, "u64"),), (code.source(size, "u64"),))


def _alloca(machine: Execution, step: Bundle[int], lanes: Lanes) -> None:
    sizes = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    found = machine.unit(CallStack).allocate(machine.indices(lanes), sizes, step.detail)
    machine.put(step.targets[0], lanes, found)


def _lower_stacksave(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    return Draft(None, (code.slot(operands(i, 1)[0], "u64"),))


def _stacksave(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    machine.put(step.targets[0], lanes, machine.unit(CallStack).top[machine.indices(lanes)])


def _lower_stackrestore(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    return Draft(None, sources=(code.source(operands(i, 1)[0], "u64"),))


def _stackrestore(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    top = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    machine.unit(CallStack).top[machine.indices(lanes)] = top


_NEVER = Counted(executed=Executed.NEVER)
_BRANCH = Counted(Profiled(Mix.BRANCH), executed=Executed.ARRIVED)

RECORDS = (
    Record("bra.uni?", decode=no_form, lower=_lower_branch, execute=nothing, flow=Flow.BRANCH,
           bundling=Bundling.BOUNDARY, counts=_BRANCH),
    Record("brx.idx.uni?", decode=no_form, lower=_lower_indexed, execute=_branch_by_index, flow=Flow.JUMP,
           bundling=Bundling.BOUNDARY, counts=_BRANCH),
    Record("ret.uni?", decode=no_form, lower=_lower_return, execute=_return, flow=Flow.JUMP,
           bundling=Bundling.BOUNDARY, counts=Counted(Profiled(Mix.BRANCH))),
    Record("ret.uni?", decode=no_form, lower=_lower_exit, execute=nothing, flow=Flow.EXIT,
           bundling=Bundling.BOUNDARY, counts=_NEVER),
    Record("exit", decode=no_form, lower=_lower_exit, execute=nothing, flow=Flow.EXIT, bundling=Bundling.BOUNDARY,
           counts=_NEVER),
    Record("trap", decode=no_form, lower=_lower_trap, execute=_trap, bundling=Bundling.BOUNDARY),
    Record("brkpt", decode=no_form, lower=_lower_trap, execute=_trap, bundling=Bundling.BOUNDARY),
    Record("nanosleep.u32", decode=no_form, lower=_lower_sleep, execute=nothing, bundling=Bundling.BOUNDARY),
    Record("alloca.type", where={"type": "u64"}, decode=no_form, lower=_lower_alloca, execute=_alloca,
           bundling=Bundling.BOUNDARY),
    Record("stacksave.u64", decode=no_form, lower=_lower_stacksave, execute=_stacksave, bundling=Bundling.BOUNDARY),
    Record("stackrestore.u64", decode=no_form, lower=_lower_stackrestore, execute=_stackrestore,
           bundling=Bundling.BOUNDARY),
)  # fmt: skip
