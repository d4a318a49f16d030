"""Calls of device functions, by name and through pointers; ``__assertfail`` and ``vprintf``, which the GPU provides.

A failing assertion is a fault with its text. What a kernel prints is collected by the device; malloc and free are in
``heap.py``. Functions that only the CUDA driver has, such as launches of kernels, are refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gemmsmith.errors import UnknownInstructionError
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.calls import Call, Callee, CallStack, Copy
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.record import Draft, Record, no_form
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.linking import function_label
from gemmsmith.sim.lowering.operation import Pointer
from gemmsmith.sim.lowering.places import Frame, Lowering, Refused
from gemmsmith.sim.lowering.traits import Bundling, Counted, Flow, Mix, Profiled
from gemmsmith.sim.memory.access_faults import ASSERTION_FAILED, LaneFault
from gemmsmith.sim.printing import formatted, parts_of
from gemmsmith.sim.ptx.syntax import Address, Instruction, Operand, Register, Symbol, Vector
from gemmsmith.sim.ptx.types import Array

_ASSERT = "__assertfail"
_PRINT = "vprintf"
_LAUNCHES = ("cudaDeviceSynchronize", "cudaLaunchDevice", "cudaGetParameterBuffer", "__cudaCDP2")


@dataclass(frozen=True)
class CallSite:
    """What a ``call`` names: the function or the register with its address, results and arguments."""

    function: Operand
    results: tuple[Operand, ...]
    arguments: tuple[Operand, ...]

    @property
    def name(self) -> str:
        return self.function.name if isinstance(self.function, (Register, Symbol)) else "?"


def call_site(call: Instruction) -> CallSite:
    """What a ``call`` instruction names."""
    at = next((n for n, o in enumerate(call.operands) if isinstance(o, (Register, Symbol))), None)
    if at is None:
        raise Refused
    results = call.operands[0].items if at and isinstance(call.operands[0], Vector) else ()
    after = call.operands[at + 1 : at + 2]
    arguments = after[0].items if after and isinstance(after[0], Vector) else ()
    return CallSite(call.operands[at], results, arguments)


def unknown_function(i: Instruction, instructions: Sequence[Instruction]) -> UnknownInstructionError:
    """The error for a call of an unknown function; ``i`` is the call or passes one of its parameters."""
    at = next(n for n, other in enumerate(instructions) if other is i)
    call = next((other for other in instructions[at:] if other.opcode == "call"), i)
    name = call_site(call).name
    hint = (
        "kernels that launch kernels (dynamic parallelism) are not simulated: launch the inner kernel by itself with "
        "gemmsmith.launch; "
        if name.startswith(_LAUNCHES)
        else "the file has no definition of it: include it, or declare it __forceinline__ (assertions are compiled out "
        "with -D NDEBUG); "
    )
    return UnknownInstructionError(
        f"the simulator cannot call the device function {name!r}: {call.name!r} ({call.text}; {call.where})",
        hint + "or run this kernel on a GPU with --device gpu",
    )


def parameter_offset(code: Lowering, operand: Operand) -> int:
    """Where a call's parameter is in the frame of the function being lowered."""
    if isinstance(operand, Symbol):
        inside = code.frame_offset(operand.name)
        found = inside if inside is not None else code.symbols.get(operand.name)
        if found is not None:
            return found
    raise Refused


# -- functions of the program -------------------------------------------------------------------------


def _copies(code: Lowering, frame: Frame, given: tuple[Operand, ...], results: bool) -> tuple[Copy, ...]:
    formal = frame.function.results if results else frame.function.parameters
    if len(given) != len(formal):
        raise Refused
    return tuple([
        Copy(parameter_offset(code, operand), frame.offsets[variable.name], variable.size)
        for operand, variable in zip(given, formal, strict=True)
    ])  # fmt: skip


def _callee(code: Lowering, frame: Frame, site: CallSite) -> Callee:
    name = frame.function.name
    return Callee(function_label(name), code.symbols[name], frame.size, _copies(code, frame, site.arguments, False),
                  _copies(code, frame, site.results, True))  # fmt: skip


def _saved(code: Lowering) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The registers of the function being lowered, if it may be called again before it goes on."""
    if code.function not in code.recursive:
        return ()
    rows: dict[str, list[int]] = {}
    for name, _ in code.frames[code.function].function.registers:
        file, row = code.rows[name]
        rows.setdefault(file, []).append(row)
    return tuple((file, tuple(found)) for file, found in rows.items())


def _lower_call(code: Lowering, i: Instruction, _: None) -> Draft[Call]:
    site = call_site(i)
    if isinstance(site.function, Symbol):
        if site.name not in code.frames:
            raise Refused
        return Draft(Call((_callee(code, code.frames[site.name], site),), _saved(code)), sources=())
    callees = []
    for frame in code.frames.values():
        try:
            callees.append(_callee(code, frame, site))
        except Refused:
            continue
    return Draft(Call(tuple(callees), _saved(code)), sources=(code.source(site.function, "u64"),))


def _call(machine: Execution, step: Bundle[Call], lanes: Lanes) -> None:
    stack, mine, call = machine.unit(CallStack), machine.indices(lanes), step.detail
    if not step.sources:
        stack.enter(call, call.callees[0], mine, step.following)
        return
    addresses = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    known = np.isin(addresses, np.array([callee.address for callee in call.callees], np.uint64))
    if not known.all():
        first = int(np.argmin(known))
        raise LaneFault(first, f"call of address {int(addresses[first]):#x}, which is no function with such parameters")
    for callee in call.callees:
        if (here := addresses == np.uint64(callee.address)).any():
            stack.enter(call, callee, mine[here], step.following)


# -- functions of the GPU -----------------------------------------------------------------------------


def parameter(code: Lowering, operand: Operand) -> Pointer:
    """Where a parameter of a call is."""
    return code.pointer(Address(operand if isinstance(operand, Symbol) else None, 0))


def parameter_words(machine: Execution, step: Bundle[None], lanes: Lanes, number: int, width: int) -> Array:
    """What each lane's parameter holds, written or not."""
    at = machine.addresses(step.pointers[number], lanes, 1).astype(np.int64) + machine.local_base[lanes]
    raw: Array = machine.local.data.view(f"u{width}")[at // width]
    return raw


def _lower_assert(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    site = call_site(i)
    if site.name != _ASSERT or site.results or len(site.arguments) != 5:
        raise Refused
    return Draft(None, pointers=tuple([parameter(code, argument) for argument in site.arguments[:3]]))


def _assert(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    """Every lane that gets here has failed; parameters are the text, the file and the line."""
    text, file = (machine.memory.text(int(parameter_words(machine, step, lanes, n, 8)[0])) for n in (0, 1))
    place = f" ({file.rsplit('/', 1)[-1]}:{int(parameter_words(machine, step, lanes, 2, 4)[0])})" if file else ""
    raise LaneFault(0, ": ".join(filter(None, (ASSERTION_FAILED, text))) + place)


def _lower_print(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    site = call_site(i)
    if site.name != _PRINT or len(site.results) != 1 or len(site.arguments) != 2:
        raise unknown_function(i, code.entry.instructions)
    return Draft(None, pointers=tuple([parameter(code, o) for o in (*site.arguments, *site.results)]))


def _print(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    """Each lane's text, in lane order; the result is the number of arguments."""
    formats, buffers = (parameter_words(machine, step, lanes, n, 8) for n in (0, 1))
    counts = np.zeros(formats.size, np.uint32)
    for n, lane in enumerate(machine.indices(lanes)):
        text = machine.memory.text(int(formats[n]))
        counts[n] = len(parts_of(text))
        machine.prints.append(formatted(machine, int(lane), text, int(buffers[n])))
    at = machine.addresses(step.pointers[2], lanes, 1).astype(np.int64) + machine.local_base[lanes]
    machine.local.scatter(at, 4, counts)


_CALL = Counted(Profiled(Mix.BRANCH))

RECORDS = (
    Record("call.uni?", decode=no_form, lower=_lower_call, execute=_call, flow=Flow.JUMP, bundling=Bundling.BOUNDARY,
           counts=_CALL),
    Record("call.uni?", decode=no_form, lower=_lower_assert, execute=_assert, bundling=Bundling.BOUNDARY),
    Record("call.uni?", decode=no_form, lower=_lower_print, execute=_print, bundling=Bundling.BOUNDARY),
)  # fmt: skip
