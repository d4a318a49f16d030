"""Loads, stores, constants, atomics and asynchronous copies."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from gemmsmith.sim.instructions.async_copy import Amount, Copy
from gemmsmith.sim.instructions.bulk_groups import GroupWait
from gemmsmith.sim.instructions.record import Draft
from gemmsmith.sim.lowering.operation import Pointer, Slot, Source
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.lowering.traits import Access, Effect, Space
from gemmsmith.sim.ptx.types import DTYPES, TYPE_BYTES
from gemmsmith.sim.sass.code import Code, constant_place
from gemmsmith.sim.sass.meaning import WIDE, Part, join, lanewise, modelled, ptx
from gemmsmith.sim.sass.record import Lower, Opcode
from gemmsmith.sim.sass.syntax import Bracketed, Immediate, MachineInstruction, Operand, Register

_SPACES = {"G": "global", "S": "shared", "L": "local", "": ""}
_NARROW = {"U8": "u8", "S8": "s8", "U16": "u16", "S16": "s16"}
_WORDS = {"64": 2, "128": 4}
# Hints, and orders: memory is always consistent here. memory_order.py reads STRONG from the name.
_HINTS = "E CONSTANT STRONG WEAK GPU SYS SM CTA VC MMIO PRIVATE EF EL LU EU NA LTC64B LTC128B LTC256B CI"


def _form(i: MachineInstruction) -> tuple[str, int]:
    """Type of a register and number of registers."""
    narrow = next((_NARROW[m] for m in i.modifiers if m in _NARROW), None)
    return (narrow, 1) if narrow else ("b32", next((_WORDS[m] for m in i.modifiers if m in _WORDS), 1))


def _name(kind: str, count: int, verb: str, space: str) -> str:
    return ".".join(part for part in (verb, space, f"v{count}" if count > 1 else "", kind) if part)


def _load(space: str) -> Lower:
    def lower(code: Code, i: MachineInstruction) -> Part:
        target, at, *rest = i.operands
        if rest and not all(isinstance(r, Register) and r.predicate and r.number is None for r in rest):
            raise Refused
        kind, count = _form(i)
        name = _name(kind, count, "ld", space)
        draft = Draft(None, code.targets(target, kind, count), (), (code.pointer(at, space),),
                      ptx(name).form.access(Effect.READ))  # fmt: skip
        return modelled(name, draft)

    return lower


def _store(space: str) -> Lower:
    def lower(code: Code, i: MachineInstruction) -> Part:
        at, value, *rest = i.operands
        if rest:
            raise Refused
        kind, count = _form(i)
        name = _name(kind, count, "st", space)
        draft = Draft(None, (), code.words(value, count, kind), (code.pointer(at, space),),
                      ptx(name).form.access(Effect.WRITE))  # fmt: skip
        return modelled(name, draft)

    return lower


# -- constants ----------------------------------------------------------------------------------------


def _same(*values: Any) -> Any:
    return values[0] if len(values) == 1 else values


def _ldc(code: Code, i: MachineInstruction) -> Part:
    """A constant at a known place is a row; at a place that a register says, it is read from the bank's copy."""
    target, at = i.operands
    kind, count = _form(i)
    if not isinstance(at, Bracketed) or at.name != "c":
        raise Refused
    try:
        bank, offset = constant_place(at)
    except Refused:
        return _indexed_constant(code, at, kind, count, code.targets(target, kind, count))
    if kind != "b32":
        word = code.special_row(f"c[{bank}][{offset // 4 * 4}]")
        return lanewise(partial(_part_of_word, kind, 8 * (offset % 4)), code.targets(target, "b32"), (word,))
    rows = tuple([code.special_row(f"c[{bank}][{offset + 4 * n}]") for n in range(count)])
    return lanewise(_same, code.targets(target, kind, count), rows)


def _part_of_word(kind: str, shift: int, word: Any) -> Any:
    """A byte or a half of a word, widened to a register as its type says."""
    part = (np.asarray(word).astype(np.uint32) >> np.uint32(shift)).astype(DTYPES[kind])
    return part.astype(np.int32).view(np.uint32) if kind[0] == "s" else part.astype(np.uint32)


def _indexed_constant(code: Code, at: Bracketed, kind: str, count: int, targets: tuple[Slot, ...]) -> Part:
    """Constant banks lie in global memory too: the bank's address is the sum's start."""
    (bank,), terms = at.groups
    if not isinstance(bank, Immediate) or bank.value is None:
        raise Refused
    inside = code.pointer(Bracketed("", (terms,)), "const")
    base = (
        code.special_row(f"bank {bank.value} address, lower word"),
        code.special_row(f"bank {bank.value} address, upper word"),
    )
    address = code.unused("u64")
    if not isinstance(inside.base, Slot):
        raise Refused
    code.before.append(lanewise(_placed, (address,), (*base, inside.base, np.uint32(inside.offset)), counted=False))
    name = _name(kind, count, "ld", "global")
    part = modelled(name, Draft(None, targets, (), (Pointer(address, 0),), ptx(name).form.access(Effect.READ)))
    return replace(part, traits=ptx("mov.b32").record)


def _placed(low: Any, high: Any, at: Any, offset: Any) -> Any:
    base = np.asarray(low).astype(np.uint64) | np.asarray(high).astype(np.uint64) << np.uint64(32)
    return base + (np.asarray(at) + offset).astype(np.uint64)


# -- asynchronous copies ------------------------------------------------------------------------------


def _ldgsts(code: Code, i: MachineInstruction) -> Part:
    """The predicate says whether the source is read; else zeros are written.

    With .ZFILL, the lowest bits of the source's address say how many bytes at the end are zeros.
    """
    to, start, *predicate = i.operands
    width = 4 * _form(i)[1]
    target, source = code.pointer(to), code.pointer(start, "global")
    size: Any = np.uint32(width)
    amount = Amount.ALL
    if predicate or "ZFILL" in i.modifiers:
        chosen = predicate[0] if predicate else Register("P", None)
        if not isinstance(chosen, Register) or chosen.sign not in ("", "!") or not isinstance(source.base, Slot):
            raise Refused
        reads: Any = np.bool_(True) if chosen.number is None else code.row(chosen.file, chosen.number, "pred")
        address, size, amount = code.unused("u64"), code.unused("u32"), Amount.SIZE
        found = _sized(chosen.sign == "!", width, source.offset)
        code.before.append(lanewise(found, (address, size), (source.base, reads), counted=False))
        source = Pointer(address, 0)
    copy = Copy("BYPASS" in i.modifiers, amount)
    draft = Draft(copy, (), (size,), (target, source), Access(Space.SHARED, Effect.COPY, width, width, width))
    return modelled("cp.async.cg.shared.global" if copy.bypass else "cp.async.ca.shared.global", draft)


@cache
def _sized(negated: bool, width: int, offset: int) -> Any:
    """The source of a copy, and how many of its bytes are read."""
    below, plus = np.uint64(width - 1), np.uint64(offset % (1 << 64))

    def compute(base: Any, reads: Any) -> tuple[Any, Any]:
        address = base + plus
        zeros = (address & below).astype(np.uint32)
        return address & ~below, np.where(reads != negated, np.uint32(width) - zeros, np.uint32(0))

    return compute


def _ldgdepbar(code: Code, i: MachineInstruction) -> Part:
    del code, i
    return modelled("cp.async.commit_group", Draft(None))


def _depbar(code: Code, i: MachineInstruction) -> list[Part]:
    """DEPBAR.LE SB0, n waits for all but the latest n groups of copies, or of stores by TMA until they have read."""
    del code
    if i.modifiers != ("LE",) or len(i.operands) < 2 or str(i.operands[0]) != "SB0":
        raise Refused
    count = i.operands[1]
    if not isinstance(count, Immediate) or count.value is None:
        raise Refused
    return [modelled("cp.async.wait_group", Draft(count.value)),
            modelled("cp.async.bulk.wait_group", Draft(GroupWait(count.value, True)), counted=False)]  # fmt: skip


# -- atomics ------------------------------------------------------------------------------------------

_OPERATIONS = {"ADD": "add", "MIN": "min", "MAX": "max", "INC": "inc", "DEC": "dec", "AND": "and", "OR": "or",
               "XOR": "xor", "EXCH": "exch", "CAS": "cas", "CAST": "cas"}  # fmt: skip
_BITWISE = ("and", "or", "xor", "exch", "cas")


def _atomic_kind(i: MachineInstruction, op: str) -> str:
    signed = "S32" in i.modifiers or "S64" in i.modifiers
    wide = "64" in i.modifiers or "S64" in i.modifiers
    named = {"F32": "f32", "F64": "f64", "F16x2": "f16x2", "BF16_V2": "bf16x2", "BF16x2": "bf16x2"}
    found = next((named[m] for m in i.modifiers if m in named), "")
    if found:
        return found
    if op in _BITWISE:
        return "b64" if wide else "b32"
    return f"{'s' if signed else 'u'}{64 if wide else 32}"


def _atomic(space: str, has_result: bool, code: Code, i: MachineInstruction) -> list[Part]:
    operands: list[Operand] = list(i.operands)
    op = next((_OPERATIONS[m] for m in i.modifiers if m in _OPERATIONS), "")
    if not op:
        raise Refused
    if has_result and isinstance(operands[0], Register) and operands[0].predicate:
        operands.pop(0)
    target = operands.pop(0) if has_result else Register("R", None)
    at, *values = operands
    kind = _atomic_kind(i, op)
    verb = ("atom" if has_result or op in ("exch", "cas") else "red") + (f".{space}" if space else "")
    hint = ".noftz" if kind in ("f16x2", "bf16x2") else ""
    name, width = f"{verb}.{op}{hint}.{kind}", TYPE_BYTES[kind]
    sources = tuple([_whole(code, i, value, kind) for value in values])
    wanted = isinstance(target, Register) and target.number is not None
    old = code.unused(kind) if wanted else None
    form = ptx(name).form
    draft = Draft(form, (old,) if old is not None else (), sources, (code.pointer(at, space),),
                  Access(form.space, Effect.UPDATE, width, width, width))  # fmt: skip
    parts = [modelled(name, draft)]
    if old is not None:
        parts.append(_returned(code, i, target, old, kind, sources[0]))
    return parts


def _whole(code: Code, i: MachineInstruction, value: Operand, kind: str) -> Source:
    """A value as one row: those of 64 bits are joined first."""
    words = code.source(i, value, kind)
    if len(words) == 1:
        return words[0]
    target = code.unused(kind)
    code.before.append(lanewise(_join_as(kind), (target,), words, counted=False))
    return target


@cache
def _join_as(kind: str) -> Any:
    return lambda low, high: join(low, high).view(DTYPES[kind])


def _returned(code: Code, i: MachineInstruction, target: Operand, old: Slot, kind: str, compared: Source) -> Part:
    """What was there before; of CAST.SPIN, whether it was what the value is compared with."""
    if "CAST" in i.modifiers:
        part = lanewise(_swapped, code.targets(target, "u32"), (old, compared), counted=False)
    elif kind in WIDE:
        part = lanewise(_halves_of, code.targets(target, "u32", 2), (old,), counted=False)
    else:
        part = lanewise(_same, code.targets(target, kind), (old,), counted=False)
    return replace(part, guarded=True)


def _swapped(old: Any, compared: Any) -> Any:
    return (np.asarray(old) == compared).astype(np.uint32)


def _halves_of(value: Any) -> tuple[Any, Any]:
    raw = np.ascontiguousarray(value).view(np.uint64)
    return raw.astype(np.uint32), (raw >> np.uint64(32)).astype(np.uint32)


_ATOMIC = f"{' '.join(_OPERATIONS)} 64 S32 S64 F32 F64 F16x2 BF16_V2 BF16x2 {_HINTS}"
_ATOMIC_HINTS = "FTZ RN U32 SPIN"
_SIZES = f"{' '.join(_NARROW)} {' '.join(_WORDS)} 32 {_HINTS} U"
RECORDS = (
    *(Opcode(f"LD{letter}", _load(space), _SIZES) for letter, space in _SPACES.items()),
    *(Opcode(f"ST{letter}", _store(space), _SIZES) for letter, space in _SPACES.items()),
    Opcode("LDC ULDC", _ldc, f"{' '.join(_NARROW)} 64 128", "32"),
    Opcode("LDGSTS", _ldgsts, "BYPASS ACCESS ZFILL 64 128", _HINTS),
    Opcode("LDGDEPBAR", _ldgdepbar),
    Opcode("DEPBAR", _depbar, "LE"),
    Opcode("ATOMG ATOM", partial(_atomic, "", True), _ATOMIC, _ATOMIC_HINTS),
    Opcode("ATOMS", partial(_atomic, "shared", True), _ATOMIC, _ATOMIC_HINTS),
    Opcode("RED REDG", partial(_atomic, "", False), _ATOMIC, _ATOMIC_HINTS),
)  # fmt: skip
