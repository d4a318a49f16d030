"""ld.param and st.param: the parameters of the kernel, and those of calls.

A kernel parameter is a constant of the launch. A call's parameters lie in the local memory of the function that calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.call import unknown_function
from gemmsmith.sim.instructions.memory import FORM, TYPES, joined, parameter_bytes, put_vector
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, Refused, items, operands
from gemmsmith.sim.lowering.traits import Access, Counted, Effect, Mix, Profiled, Space
from gemmsmith.sim.ptx.syntax import SINK, Address, Instruction, Operand, Register, Symbol
from gemmsmith.sim.ptx.types import TYPE_BYTES, Array

_SPACES = "param param::entry param::func"
_WHERE = {**{k: FORM[k] for k in ("order", "hint", "vec")}, "space": _SPACES, "type": TYPES}
_RENAMED = Counted(Profiled(Mix.NONE))


@dataclass(frozen=True)
class Form:
    """A vector of ``count`` elements of a PTX type."""

    count: int
    kind: str

    def access(self, effect: Effect) -> Access:
        width = TYPE_BYTES[self.kind]
        return Access(Space.LOCAL, effect, width * self.count, width, width * self.count)


def _decode(m: Modifiers) -> Form:
    return Form(int(m.get("vec", "v1")[1:]), m["type"])


def _is_kernel_parameter(code: Lowering, operand: Operand) -> bool:
    """Registers point to kernel parameters in the entry, and to its own parameters in a function."""
    base = operand.base if isinstance(operand, Address) else None
    if isinstance(base, Symbol):
        return any(parameter.name == base.name for parameter in code.entry.parameters)
    return not code.function


def _lower_load(code: Lowering, i: Instruction, form: Form) -> Draft[int]:
    into, at = operands(i, 2)
    if not _is_kernel_parameter(code, at):
        raise Refused
    targets = tuple([code.slot(target, form.kind) for target in items(into, form.count)])
    return Draft(form.count * TYPE_BYTES[form.kind], targets, pointers=(code.pointer(at),))


def _load(machine: Execution, step: Bundle[int], lanes: Lanes) -> None:
    """The detail is the width in bytes."""
    base = step.pointers[0].base
    if base.constant is not None:
        at: Array = np.atleast_1d(base.constant).astype(np.int64)
    else:
        at = machine.addresses(step.pointers[0], lanes, step.count).astype(np.int64)
    put_vector(machine, step, lanes, parameter_bytes(machine, at, step.detail))


def _check_known(code: Lowering, i: Instruction, at: Operand) -> None:
    base = at.base if isinstance(at, Address) else None
    known = isinstance(base, Symbol) and (code.frame_offset(base.name) is not None or base.name in code.symbols)
    if not known and not (isinstance(base, Register) and code.function):
        raise unknown_function(i, code.entry.instructions)


def _lower_result(code: Lowering, i: Instruction, form: Form) -> Draft[None]:
    """ld.param of what a call gives back, or in a function, of what it was given."""
    into, at = operands(i, 2)
    _check_known(code, i, at)
    wanted = [(n, target) for n, target in enumerate(items(into, form.count)) if target != SINK]
    if len(wanted) != form.count:
        raise Refused
    return Draft(None, tuple([code.slot(target, form.kind) for _, target in wanted]), (), (code.pointer(at),),
                 form.access(Effect.READ))  # fmt: skip


def _load_call(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    assert step.access is not None
    width = step.access.width
    index = machine.local.index(
        machine.addresses(step.pointers[0], lanes, step.count), machine.local_base[lanes], width
    )
    put_vector(machine, step, lanes, machine.local.gather(index, width))


def _lower_argument(code: Lowering, i: Instruction, form: Form) -> Draft[None]:
    """st.param of an argument for a call, or in a function, of its result."""
    at, values = operands(i, 2)
    _check_known(code, i, at)
    sources = tuple([code.source(value, form.kind) for value in items(values, form.count)])
    return Draft(None, (), sources, (code.pointer(at),), form.access(Effect.WRITE))


def _store_call(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    assert step.access is not None
    width = step.access.width
    addresses = machine.addresses(step.pointers[0], lanes, step.count)
    columns = [np.broadcast_to(machine.fetch(source, lanes), addresses.shape) for source in step.sources]
    index = machine.local.index(addresses, machine.local_base[lanes], width)
    machine.local.scatter(index, width, joined(columns, width))


RECORDS = (
    Record("ld.order?.space.hint*.vec?.type", where=_WHERE, decode=_decode, lower=_lower_load, execute=_load,
           verb="read", counts=_RENAMED),
    Record("ld.order?.space.hint*.vec?.type", where=_WHERE, decode=_decode, lower=_lower_result, execute=_load_call,
           verb="read", counts=_RENAMED),
    Record("st.order?.space.hint*.vec?.type", where=_WHERE, decode=_decode, lower=_lower_argument, execute=_store_call,
           verb="write", counts=_RENAMED),
)  # fmt: skip
