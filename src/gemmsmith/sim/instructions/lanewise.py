"""Instructions that compute each lane's result from that lane's operands: one NumPy function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering import Lowering, operands
from gemmsmith.sim.syntax import Instruction
from gemmsmith.sim.traits import Counted, Mix, Profiled

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
        return Form(meaning, mod32 or meaning, types, modifiers.get(result, result))

    return Record(pattern, where=where or {}, decode=decode, lower=_lower, execute=compute, counts=counts or Counted())


def _lower(code: Lowering, i: Instruction, form: Form) -> Draft[Function]:
    target, *sources = operands(i, 1 + len(form.arguments))
    return Draft(
        form.mod32 if code.mod32 else form.function,
        targets=(code.slot(target, form.result),),
        sources=tuple([code.source(o, kind) for o, kind in zip(sources, form.arguments, strict=True)]),
    )


def compute(machine: Execution, step: Bundle[Function], lanes: Lanes) -> None:
    """Apply the function to the sources and write the result."""
    machine.put(step.targets[0], lanes, step.detail(*[machine.fetch(s, lanes) for s in step.sources]))
