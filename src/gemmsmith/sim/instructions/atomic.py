"""atom and red: additions, and the larger of two integers, in global or shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering import Lowering, Refused, operands
from gemmsmith.sim.memory import RAW, GlobalMemory, WindowMemory
from gemmsmith.sim.syntax import SINK, Instruction, Operand
from gemmsmith.sim.traits import Access, Bundling, Effect, Space
from gemmsmith.sim.types import TYPE_BYTES, Array

Update = Callable[[Array, Array], Array]

_SPACES = {"global": Space.GLOBAL, "shared": Space.SHARED, "shared::cta": Space.SHARED, "": Space.GENERIC}
# What each operation does to the old value, and the types it is known for.
_OPERATIONS: dict[str, tuple[Update, str]] = {
    "add": (np.add, "f32 u32 s32 u64 f64"),
    "max": (np.maximum, "u32 s32"),
}


@dataclass(frozen=True)
class Form:
    """An update in some space, of a PTX type."""

    update: Update
    space: Space
    kind: str


def _decode(m: Modifiers) -> Form:
    update, types = _OPERATIONS[m["op"]]
    if m["type"] not in types.split():
        raise Refused
    return Form(update, _SPACES[m.get("space", "")], m["type"])


def _lower_atom(code: Lowering, i: Instruction, form: Form) -> Draft[Update]:
    old, at, value = operands(i, 3)
    return _draft(code, () if old == SINK else (old,), at, value, form)


def _lower_red(code: Lowering, i: Instruction, form: Form) -> Draft[Update]:
    at, value = operands(i, 2)
    return _draft(code, (), at, value, form)


def _draft(code: Lowering, old: tuple[Operand, ...], at: Operand, value: Operand, form: Form) -> Draft[Update]:
    width = TYPE_BYTES[form.kind]
    return Draft(form.update, tuple([code.slot(o, form.kind) for o in old]), (code.source(value, form.kind),),
                 (code.pointer(at),), Access(form.space, Effect.UPDATE, width, width, width))  # fmt: skip


def _execute(machine: Execution, step: Bundle[Update], lanes: Lanes) -> None:
    """Lanes that meet at one address update it one after another, in lane order."""
    assert step.access is not None
    width, update = step.access.width, step.detail
    space, addresses = machine.place_of(step, lanes)
    values = np.broadcast_to(machine.fetch(step.sources[0], lanes), addresses.shape)
    if space is Space.GLOBAL:
        memory: GlobalMemory | WindowMemory = machine.memory
        at = addresses
    else:
        memory, bases = machine.window(space, lanes)
        at = memory.index(addresses, bases, width)
    old = memory.gather(at, width).view(values.dtype)  # before anything is written: a fault names the right lane
    if machine.shadow is not None and space is Space.SHARED:
        machine.shadow.atomic(step.first, machine.indices(lanes), at)
    for turn in _turns(at):
        old[turn] = memory.gather(at[turn], width).view(values.dtype)
        memory.scatter(at[turn], width, update(old[turn], values[turn]).view(RAW[width]))
    if step.targets:
        machine.put(step.targets[0], lanes, old)


def _turns(addresses: Array) -> Iterator[Array]:
    """Sets of lanes with different addresses; the n-th lane of each address is in the n-th set."""
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    turn = np.arange(addresses.size) - np.repeat(starts, np.diff(np.append(starts, addresses.size)))
    by_turn = order[np.argsort(turn, kind="stable")]
    yield from np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


_WHERE = {
    "order": "relaxed acquire release acq_rel", "scope": "cta gpu sys", "space": " ".join(_SPACES),
    "op": " ".join(_OPERATIONS), "type": "f32 f64 u32 s32 u64",
}  # fmt: skip

RECORDS = (
    Record("atom.order?.scope?.space?.op.type", where=_WHERE, decode=_decode, lower=_lower_atom, execute=_execute,
           verb="atomic update", bundling=Bundling.ALONE),
    Record("red.order?.scope?.space?.op.type", where=_WHERE, decode=_decode, lower=_lower_red, execute=_execute,
           verb="atomic update", bundling=Bundling.ALONE),
)  # fmt: skip
