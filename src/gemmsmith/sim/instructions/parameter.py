"""ld.param and st.param: the parameters of the kernel, and those of calls.

A kernel parameter is a constant of the launch. A call's parameters are registers of their scope, so that storing and
loading them are moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.call import unknown_function
from gemmsmith.sim.instructions.lanewise import Function, compute
from gemmsmith.sim.instructions.memory import FORM, TYPES, put_vector
from gemmsmith.sim.instructions.move import same
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering import Lowering, Refused, items, operands
from gemmsmith.sim.memory import RAW, AccessFault
from gemmsmith.sim.ptx import CALL_PARAMETER
from gemmsmith.sim.syntax import Address, Instruction, Operand, Register, Symbol, Vector
from gemmsmith.sim.traits import Counted, Mix, Profiled, Space
from gemmsmith.sim.types import TYPE_BYTES, Array

_SPACES = "param param::entry param::func"
_WHERE = {**{k: FORM[k] for k in ("order", "hint", "vec")}, "space": _SPACES, "type": TYPES}


@dataclass(frozen=True)
class Form:
    """A vector of ``count`` elements of a PTX type."""

    count: int
    kind: str


def _decode(m: Modifiers) -> Form:
    return Form(int(m.get("vec", "v1")[1:]), m["type"])


def _is_kernel_parameter(code: Lowering, operand: Operand) -> bool:
    base = operand.base if isinstance(operand, Address) else None
    if isinstance(base, Register):
        return not base.name.startswith(CALL_PARAMETER)
    return not isinstance(base, Symbol) or base.name in code.symbols


def _lower_load(code: Lowering, i: Instruction, form: Form) -> Draft[int]:
    into, at = operands(i, 2)
    if not _is_kernel_parameter(code, at):
        raise Refused
    targets = tuple([code.slot(target, form.kind) for target in items(into, form.count)])
    return Draft(form.count * TYPE_BYTES[form.kind], targets, pointers=(code.pointer(at),))


def _load(machine: Execution, step: Bundle[int], lanes: Lanes) -> None:
    """The detail is the width in bytes."""
    width, base = step.detail, step.pointers[0].base
    parameters = np.frombuffer(machine.wave.parameters, np.uint8)
    if base.constant is not None:
        at: Array = np.atleast_1d(base.constant).astype(np.int64)
    else:
        at = machine.addresses(step.pointers[0], lanes, step.count).astype(np.int64)
    beyond = (at < 0) | (at + width > parameters.size)
    if beyond.any():
        position = int(np.flatnonzero(beyond.reshape(-1))[0])
        raise AccessFault("out-of-bounds", position, int(at.reshape(-1)[position]),
                          f"the kernel has {parameters.size} bytes of parameters", Space.PARAM)  # fmt: skip
    raw = np.ascontiguousarray(parameters[at[..., None] + np.arange(width)]).view(RAW[width])[..., 0]
    put_vector(machine, step, lanes, raw)


def _call_parameter(code: Lowering, i: Instruction, at: Operand, value: Operand, kind: str) -> Register:
    """The register that stands for a call's parameter; the whole of it must be accessed at once."""
    base = at.base if isinstance(at, Address) and at.offset == 0 else None
    if isinstance(base, Register) and base.name.startswith(CALL_PARAMETER):
        whole = TYPE_BYTES[code.entry.register_types[base.name]] == TYPE_BYTES[kind]
        if whole and not isinstance(value, Vector):
            return base
    raise unknown_function(i, code.entry.instructions)


def _lower_result(code: Lowering, i: Instruction, form: Form) -> Draft[Function]:
    """ld.param of what a call gives back."""
    target, at = operands(i, 2)
    source, kind = _call_parameter(code, i, at, target, form.kind), f"b{8 * TYPE_BYTES[form.kind]}"
    return Draft(same, (code.slot(target, kind),), (code.source(source, kind),))


def _lower_argument(code: Lowering, i: Instruction, form: Form) -> Draft[Function]:
    """st.param of an argument for a call."""
    at, source = operands(i, 2)
    target, kind = _call_parameter(code, i, at, source, form.kind), f"b{8 * TYPE_BYTES[form.kind]}"
    return Draft(same, (code.slot(target, kind),), (code.source(source, kind),))


RECORDS = (
    Record("ld.order?.space.hint*.vec?.type", where=_WHERE, decode=_decode, lower=_lower_load, execute=_load,
           verb="read", counts=Counted(Profiled(Mix.NONE))),
    Record("ld.order?.space.hint*.vec?.type", where=_WHERE, decode=_decode, lower=_lower_result, execute=compute),
    Record("st.order?.space.hint*.vec?.type", where=_WHERE, decode=_decode, lower=_lower_argument, execute=compute),
)  # fmt: skip
