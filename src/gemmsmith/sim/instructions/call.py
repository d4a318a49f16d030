"""Calls of device functions. Two are known: ``__assertfail``, which ``assert`` calls, and ``vprintf``, which prints.

An assertion that fails in any thread is a fault with its text. What a kernel prints is not shown: ``vprintf`` does
nothing and returns 0, where a GPU returns the number of arguments. Every other function must have been inlined by the
compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gemmsmith.errors import UnknownInstructionError
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.lanewise import Function, compute
from gemmsmith.sim.instructions.move import same
from gemmsmith.sim.instructions.record import Draft, Record, no_form
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering import Lowering, Refused, scalar
from gemmsmith.sim.memory import LaneFault
from gemmsmith.sim.syntax import Instruction, Operand, Register, Symbol, Vector
from gemmsmith.sim.traits import Bundling
from gemmsmith.sim.types import DTYPES

_ASSERT = "__assertfail"
_PRINT = "vprintf"


@dataclass(frozen=True)
class Call:
    """The function that a ``call`` names, what it gives back, and its arguments."""

    function: str
    results: tuple[Operand, ...]
    arguments: tuple[Operand, ...]


def _parts(call: Instruction) -> Call:
    lists = [(n, o.items) for n, o in enumerate(call.operands) if isinstance(o, Vector)]
    names = [o.name for o in call.operands if isinstance(o, (Register, Symbol))]
    results = next((items for n, items in lists if n == 0), ())
    arguments = next((items for n, items in lists if n > 0), ())
    return Call(names[0] if names else "?", results, arguments)


def unknown_function(i: Instruction, instructions: Sequence[Instruction]) -> UnknownInstructionError:
    """The error for a call of an unknown function; ``i`` is the call or passes one of its parameters."""
    at = next(n for n, other in enumerate(instructions) if other is i)
    call = next((other for other in instructions[at:] if other.opcode == "call"), i)
    return UnknownInstructionError(
        f"the simulator cannot call the device function {_parts(call).function!r}: {call.name!r} ({call.text}; "
        f"{call.where})",
        "device functions must be inlined: declare them __forceinline__ (or compile assertions out with -D NDEBUG); "
        "or run this kernel on a GPU with --device gpu",
    )


def _lower_assert(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    call = _parts(i)
    if call.function != _ASSERT or call.results or len(call.arguments) != 5:
        raise Refused
    return Draft(None, sources=(code.source(call.arguments[0], "u64"),))


def _assert(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    """Every lane that gets here has failed; the source is the address of the text."""
    address = machine.spread(machine.fetch(step.sources[0], lanes), lanes)[0]
    raise LaneFault(0, ": ".join(filter(None, ("assertion failed", machine.memory.text(int(address))))))


def _lower_print(code: Lowering, i: Instruction, _: None) -> Draft[Function]:
    call = _parts(i)
    if call.function != _PRINT or len(call.results) != 1:
        raise unknown_function(i, code.entry.instructions)
    return Draft(same, (code.slot(call.results[0], "b32"),), (scalar(0, DTYPES["b32"]),))


RECORDS = (
    Record("call.uni?", decode=no_form, lower=_lower_assert, execute=_assert, bundling=Bundling.BOUNDARY),
    Record("call.uni?", decode=no_form, lower=_lower_print, execute=compute),
)
