"""From PTX instructions to operations on rows of register files, by the records of the instruction table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gemmsmith.errors import UnknownInstructionError
from gemmsmith.sim.instructions.record import Draft
from gemmsmith.sim.instructions.table import Decoded, Table, table
from gemmsmith.sim.lowering.contraction import contract
from gemmsmith.sim.lowering.linking import START, function_label, link
from gemmsmith.sim.lowering.operation import Lowered, Operation, Slot, Source
from gemmsmith.sim.lowering.places import Lowering, Refused
from gemmsmith.sim.lowering.rewriting import Rewriting
from gemmsmith.sim.ptx.syntax import Entry, Instruction

# What instructions need that the simulated GPU, one of sm_90a or older, does not have.
_HINTS = {
    "multimem": "multimem works on addresses that several GPUs share (multicast objects), and the simulator is one: "
    "run the program on its GPUs",
    "tcgen05": "tcgen05 is of sm_100 (Blackwell), and the simulator knows up to sm_90a: run this kernel on such a GPU",
    "clusterlaunchcontrol": "clusterlaunchcontrol is of sm_100 (Blackwell), and the simulator knows up to sm_90a: run "
    "this kernel on such a GPU",
}
_TEXTURES = ("tex", "tld4", "txq", "suld", "sust", "sured", "suq")


def lower(entry: Entry, addresses: dict[str, int], mod32: bool = False, known: Table | None = None,
          contracts: bool = True) -> Lowered:  # fmt: skip
    """Lower a whole entry.

    ``addresses`` places the module's .global and .const variables. ``mod32`` takes fp32 +, −, × and fma modulo 2³².
    ``known`` is the table of instructions, all by default. ``contracts``: products and sums become fma as by ptxas.
    """
    known = known or table()
    entry = _expand(link(entry), known)
    if contracts and not mod32:
        entry = contract(entry)
    code = Lowering(entry, addresses, mod32)
    labels = dict(entry.labels)
    starts = {labels[function_label(function.name)]: function.name for function in entry.functions}
    start = labels.get(START, 0)
    operations = []
    for n, instruction in enumerate(entry.instructions):
        code.function = "" if n >= start else starts.get(n, code.function)
        operations.append(_lower(code, known, n, instruction))
    frame, size = code.local_size, code.local_size + code.stack_size()
    functions = {name: code.symbols[name] for name in code.frames}
    arrays = tuple([(v.name, code.symbols[v.name], v.size) for v in entry.variables if v.space == "shared"])
    return Lowered(tuple(operations), labels, code.heights, code.special, code.static_shared, size, start, frame,
                   functions, arrays)  # fmt: skip


def unknown(instruction: Instruction, register: str = "") -> UnknownInstructionError:
    """The error for an instruction that no record takes, or for the special register that it reads."""
    name = instruction.name
    what = f"special register {register!r} of {name!r}" if register else f"PTX instruction {name!r}"
    hint = "run this kernel on a GPU with --device gpu, or report the instruction"
    if instruction.opcode in _TEXTURES:
        hint = ("of textures and surfaces, tex and tld4 of 1, 2 and 3 dimensions and layers are simulated, and suld.b "
                "and sust.b: run this kernel on a GPU with --device gpu")  # fmt: skip
    hint = _HINTS.get(instruction.opcode.partition(".")[0], hint)
    return UnknownInstructionError(
        f"the simulator does not know the {what} ({instruction.text}; {instruction.where})", hint
    )


def _expand(entry: Entry, known: Table) -> Entry:
    """The entry with each composite instruction replaced by the instructions it stands for."""
    names = {i.name for i in entry.instructions}
    composites = {name: found for name in names if (found := known.composite(name)) is not None}
    if not composites:
        return entry
    work = Rewriting(entry, (i for i in entry.instructions if i.name not in composites))
    starts: list[int] = []
    instructions: list[Instruction] = []
    for instruction in entry.instructions:
        starts.append(len(instructions))
        if instruction.name not in composites:
            instructions.append(instruction)
            continue
        composite, modifiers = composites[instruction.name]
        try:
            instructions += composite.expand(work, instruction, modifiers)
        except Refused:
            raise unknown(instruction) from None
    starts.append(len(instructions))
    labels = tuple((name, starts[at]) for name, at in entry.labels)
    return replace(
        entry, registers=(*entry.registers, *work.registers), instructions=tuple(instructions), labels=labels
    )


def _lower(code: Lowering, known: Table, position: int, i: Instruction) -> Operation[Any]:
    register = ""
    for decoded in known.find(i.name):
        try:
            guard = None if i.guard is None else code.slot(i.guard, "pred")
            return _operation(position, i, guard, decoded, decoded.record.lower(code, i, decoded.form))
        except Refused as refused:
            register = refused.register or register
    raise unknown(i, register)


def _operation(
    position: int, i: Instruction, guard: Slot | None, decoded: Decoded, draft: Draft[Any]
) -> Operation[Any]:
    record = decoded.record
    key = (record, draft.detail, draft.access, tuple([_form(s) for s in draft.sources]),
           tuple([_form(t) for t in draft.targets]), tuple([_form(p.base) for p in draft.pointers]),
           None if guard is None else (guard.row, i.negated))  # fmt: skip
    return Operation(position, i, record, record.execute, draft.detail, draft.targets, draft.sources, draft.pointers,
                     draft.access, guard, i.negated, key)  # fmt: skip


def _form(source: Source) -> tuple[str, str] | None:
    """What operands must have in common to be merged: the register file and the type, or being constants."""
    return (source.file, source.dtype.str) if isinstance(source, Slot) else None
