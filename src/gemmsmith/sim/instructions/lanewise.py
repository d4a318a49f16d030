"""Instructions that compute each lane's result from that lane's operands: one NumPy function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Slot
from gemmsmith.sim.lowering.places import Lowering, Refused, operands
from gemmsmith.sim.lowering.traits import Counted, Mix, Profiled
from gemmsmith.sim.ptx.syntax import SINK, Instruction, Negated, Operand

Function = Callable[..., Any]
# Chooses the function by the modifiers.
Choice = Callable[[Modifiers], Function]

COMPARE = Counted(Profiled(Mix.COMPARE))
CONVERT = Counted(Profiled(Mix.CONVERT))


@dataclass(frozen=True)
class Form:
    """A function over NumPy arrays with one element per lane, and the PTX types of its arguments and result.

    ``mod32`` takes its place when fp32 arithmetic is modulo 2³².
    """

    function: Function
    mod32: Function
    arguments: tuple[str, ...]
    result: str


def lanewise(
    pattern: str,
    signature: str,
    function: Function | None = None,
    *,
    choose: Choice | None = None,
    mod32: Function | None = None,
    where: Mapping[str, str] | None = None,
    counts: Counted | None = None,
) -> Record[Form, Function]:
    """The record of a lane-wise instruction.

    ``signature`` has the PTX types of arguments and result, as in ``"f32, f32 -> f32"``; a word of the pattern stands
    for the modifier it matched. The function is given, or chosen by the modifiers.
    """
    arguments, result = (part.strip() for part in signature.split("->"))

    def decode(modifiers: Modifiers) -> Form:
        meaning = function if choose is None else choose(modifiers)
        assert meaning is not None
        types = tuple(modifiers.get(name.strip(), name.strip()) for name in arguments.split(","))
        wraps = mod32 or meaning
        if mod32 is not None and "sat" in modifiers:
            wraps = _refused  # a clamped sum has no meaning modulo 2³²
        return Form(meaning, wraps, types, modifiers.get(result, result))

    return Record(pattern, where=where or {}, decode=decode, lower=_lower, execute=compute, counts=counts or Counted())


def _refused(*values: Any) -> Any:
    """Stands for arithmetic modulo 2³² where there is none; never called."""
    raise AssertionError(values)


def _lower(code: Lowering, i: Instruction, form: Form) -> Draft[Function]:
    target, *given = operands(i, 1 + len(form.arguments))
    if code.mod32 and form.mod32 is _refused:
        raise Refused
    function, sources = with_negated(form.mod32 if code.mod32 else form.function, tuple(given), form.arguments)
    return Draft(
        function,
        targets=(code.slot(target, form.result),),
        sources=tuple([code.source(o, kind) for o, kind in zip(sources, form.arguments, strict=True)]),
    )


def with_negated(
    function: Function, sources: tuple[Operand, ...], kinds: tuple[str, ...] = ()
) -> tuple[Function, tuple[Operand, ...]]:
    """A function that takes negated operands as they are, and the operands without their negation.

    PTX negates predicates alone; numbers are negated where a sum was contracted with a product. ``kinds``: their types.
    """
    places = tuple([n for n, source in enumerate(sources) if isinstance(source, Negated)])
    if not places:
        return function, sources
    negated = tuple([(n, kinds[n] if kinds else "pred") for n in places])
    return _negating(function, negated), tuple([s.register if isinstance(s, Negated) else s for s in sources])


# The bits that change where a number is negated, as the type in which a function gets its values.
_SIGNS: dict[str, np.generic] = {
    "f32": np.uint32(1 << 31), "f64": np.uint64(1 << 63), "f16": np.uint16(1 << 15), "bf16": np.uint16(1 << 15),
    "f16x2": np.uint32(0x80008000), "bf16x2": np.uint32(0x80008000),
}  # fmt: skip


@cache
def _negating(function: Function, places: tuple[tuple[int, str], ...]) -> Function:
    """One function for each original, so that like operations are bundled."""
    kinds = dict(places)
    return lambda *values: function(*(_negative(v, kinds[n]) if n in kinds else v for n, v in enumerate(values)))


def _negative(value: Any, kind: str) -> Any:
    if kind not in _SIGNS:
        return np.logical_not(value)
    sign = _SIGNS[kind]
    values = np.asarray(value)
    return (values.view(sign.dtype) ^ sign).view(values.dtype)


def optional_slots(code: Lowering, targets: tuple[Operand, ...], kinds: tuple[str, ...]) -> tuple[Slot, ...]:
    """The rows of several results. One that is not wanted goes to a row that nothing reads."""
    return tuple([
        code.unused(kind) if target == SINK else code.slot(target, kind)
        for target, kind in zip(targets, kinds, strict=True)
    ])  # fmt: skip


def compute_several(machine: Execution, step: Bundle[Function], lanes: Lanes) -> None:
    """Apply a function with several results and write each."""
    results = step.detail(*[machine.fetch(s, lanes) for s in step.sources])
    for target, result in zip(step.targets, results, strict=True):
        machine.put(target, lanes, result)


def compute(machine: Execution, step: Bundle[Function], lanes: Lanes) -> None:
    """Apply the function to the sources and write the result."""
    machine.put(step.targets[0], lanes, step.detail(*[machine.fetch(s, lanes) for s in step.sources]))
