"""Calls of device functions. Two are known: ``__assertfail``, which ``assert`` calls, and ``vprintf``, which prints.

A call's parameters are registers of their scope, so that ``st.param`` and ``ld.param`` are moves. An assertion that
fails in any thread is a fault with its text. What a kernel prints is not shown: ``vprintf`` does nothing and returns 0,
where a GPU returns the number of arguments. Every other function must have been inlined by the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gemmsmith.errors import UnknownInstructionError
from gemmsmith.sim.ptx import CALL_PARAMETER, TYPE_BYTES, Address, Instruction, Operand, Register, Symbol, Vector

ASSERT = "__assertfail"
PRINT = "vprintf"


def parameter(operand: Operand, width: int, widths: dict[str, int]) -> Register | None:
    """The register that stands for a call's parameter, if ``operand`` is the address of all of one."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Register) or operand.offset:
        return None
    base = operand.base
    return base if base.name.startswith(CALL_PARAMETER) and widths[base.name] == width else None


def as_move(i: Instruction, target: Operand, source: Operand) -> Instruction:
    """The move that an ``st.param`` or ``ld.param`` of a call is."""
    return replace(i, opcode="mov", modifiers=(f"b{8 * TYPE_BYTES[i.type]}",), operands=(target, source))


def parts(call: Instruction) -> tuple[str, tuple[Operand, ...], tuple[Operand, ...]]:
    """The function that a ``call`` names, what it gives back, and its arguments."""
    lists = [(n, o.items) for n, o in enumerate(call.operands) if isinstance(o, Vector)]
    names = [o.name for o in call.operands if isinstance(o, (Register, Symbol))]
    results = next((items for n, items in lists if n == 0), ())
    arguments = next((items for n, items in lists if n > 0), ())
    return names[0] if names else "?", results, arguments


def unknown_function(i: Instruction, instructions: Sequence[Instruction]) -> UnknownInstructionError:
    """The error for the call that ``i`` is, or prepares."""
    at = next(n for n, other in enumerate(instructions) if other is i)
    call = next((other for other in instructions[at:] if other.opcode == "call"), i)
    name = ".".join((call.opcode, *call.modifiers))
    return UnknownInstructionError(
        f"the simulator cannot call the device function {parts(call)[0]!r}: {name!r} ({call.text}; {call.where})",
        "device functions must be inlined: declare them __forceinline__ (or compile assertions out with -D NDEBUG); "
        "or run this kernel on a GPU with --device gpu",
    )
