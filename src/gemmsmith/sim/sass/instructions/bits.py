"""Bits: logic, shifts, permutations, selection and moves of registers and predicates."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from gemmsmith.sim.arithmetic import integers
from gemmsmith.sim.instructions.record import Draft
from gemmsmith.sim.lowering.operation import Slot, Source
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.sass.code import Code, changes_of
from gemmsmith.sim.sass.instructions.integer import predicates_after
from gemmsmith.sim.sass.meaning import Function, Part, lanewise, ptx
from gemmsmith.sim.sass.record import Opcode
from gemmsmith.sim.sass.syntax import Immediate, MachineInstruction, Operand, Register, Symbol


def _table(operand: Operand) -> int:
    if not isinstance(operand, Immediate) or operand.value is None:
        raise Refused
    return operand.value & 0xFF


@cache
def _lop3(table: int, both: bool, either: bool) -> Function:
    """A truth table of three words; with ``both``, also whether the result has a bit set, combined with a predicate."""

    def compute(a: Array, b: Array, c: Array, other: Array) -> Any:
        word = integers.lop3(a, b, c, table)
        if not both:
            return word
        return word, np.logical_or(word != 0, other) if either else np.logical_and(word != 0, other)

    return compute


def _lop3_lower(code: Code, i: MachineInstruction) -> Part:
    results, rest = predicates_after(i, 0)
    target, a, b, c, table, other = rest
    targets: list[Any] = [(target, "u32"), *[(result, "pred") for result in results]]
    found = _lop3(_table(table), bool(results), "PAND" not in i.modifiers)
    return code.apply(i, found, targets, [(a, "u32"), (b, "u32"), (c, "u32"), (other, "pred")])


def _logic(table: int, a: Any, b: Any, c: Any) -> Any:
    """A truth table of three predicates."""
    result = np.zeros(np.broadcast(a, b, c).shape, bool)
    for n in range(8):
        if table >> n & 1:
            result = result | ((a if n & 4 else ~a) & (b if n & 2 else ~b) & (c if n & 1 else ~c))
    return result


@cache
def _plop3(first: int, second: int) -> Function:
    def compute(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
        a, b, c = (np.asarray(x, bool) for x in (a, b, c))
        return _logic(first, a, b, c), _logic(second, a, b, c)

    return compute


def _plop3_lower(code: Code, i: MachineInstruction) -> Part:
    one, two, a, b, c, first, second = i.operands
    return code.apply(i, _plop3(_table(first), _table(second)), [(one, "pred"), (two, "pred")],
                      [(a, "pred"), (b, "pred"), (c, "pred")])  # fmt: skip


# -- shifts -------------------------------------------------------------------------------------------


@cache
def _funnel(left: bool, bits: int, signed: bool, upper: bool, wrap: bool) -> Function:
    """The lower or upper word of 64 bits, shifted."""

    def compute(low: Array, amount: Array, high: Array) -> Array:
        low, amount, high = np.broadcast_arrays(low, amount, high)
        value = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
        shift = amount & np.uint32(bits - 1) if wrap else np.minimum(amount, np.uint32(bits))
        wide = np.minimum(shift, np.uint32(63)).astype(np.uint64)
        beyond = shift >= 64
        if left:
            moved = np.where(beyond, np.uint64(0), value << wide)
        elif signed:
            moved = (value.view(np.int64) >> wide.view(np.int64)).view(np.uint64)
        else:
            moved = np.where(beyond, np.uint64(0), value >> wide)
        return (moved >> np.uint64(32) if upper else moved).astype(np.uint32)

    return compute


def _shf(code: Code, i: MachineInstruction) -> Part:
    target, low, amount, high = i.operands
    kind = next((m for m in i.modifiers if m in ("U32", "S32", "U64", "S64")), "")
    if not kind or ("L" in i.modifiers) == ("R" in i.modifiers):
        raise Refused
    found = _funnel("L" in i.modifiers, int(kind[1:]), kind[0] == "S", "HI" in i.modifiers, "W" in i.modifiers)
    return code.apply(i, found, [(target, "u32")], [(low, "u32"), (amount, "u32"), (high, "u32")])


def _prmt(code: Code, i: MachineInstruction) -> Part:
    target, a, selector, b = i.operands
    return code.apply(i, integers.permute_bytes, [(target, "u32")], [(a, "u32"), (b, "u32"), (selector, "u32")])


def _sgxt(code: Code, i: MachineInstruction) -> Part:
    target, a, bits = i.operands
    kind = "u32" if "U32" in i.modifiers else "s32"
    found = integers.extend_from("W" in i.modifiers)
    return code.apply(i, found, [(target, kind)], [(a, kind), (bits, "u32")])


def _bmsk(code: Code, i: MachineInstruction) -> Part:
    target, start, bits = i.operands
    found = integers.bit_mask("W" in i.modifiers)
    return code.apply(i, found, [(target, "u32")], [(start, "u32"), (bits, "u32")])


# -- selection and moves ------------------------------------------------------------------------------


def _select(a: Array, b: Array, first: Array) -> Array:
    return np.where(first, a, b)


def _sel(kind: str, code: Code, i: MachineInstruction) -> Part:
    target, a, b, which = i.operands
    if "64" in i.modifiers:
        kind = "u64"
    return code.apply(i, _select, [(target, kind)], [(a, kind), (b, kind), (which, "pred")])


def _same(a: Array) -> Array:
    return a


def _mov(code: Code, i: MachineInstruction) -> Part:
    target, value, *mask = i.operands
    if mask and str(mask[0]) != "0xf":
        raise Refused
    kind = "u64" if "64" in i.modifiers else "u32"
    return code.apply(i, _same, [(target, kind)], [(value, kind)])


# Special registers that are PTX's; others are refused by name.
SPECIAL = {
    **{f"SR_TID.{axis}": f"%tid.{axis.lower()}" for axis in "XYZ"},
    **{f"SR_CTAID.{axis}": f"%ctaid.{axis.lower()}" for axis in "XYZ"},
    **{f"SR_NCTAID.{axis}": f"%nctaid.{axis.lower()}" for axis in "XYZ"},
    "SR_LANEID": "%laneid", "SR_CgaCtaId": "%cluster_ctarank", "SR_VIRTID": "%smid", "SR_WARPID": "%warpid",
    "SR_CgaSize": "%cluster_nctarank", "SR_EQMASK": "%lanemask_eq", "SR_LTMASK": "%lanemask_lt",
    "SR_LEMASK": "%lanemask_le", "SR_GTMASK": "%lanemask_gt", "SR_GEMASK": "%lanemask_ge",
    "SR_SWINHI": "shared window, upper word", "SR_LWINHI": "local window, upper word", "SR_SMEMSZ": "%total_smem_size",
}  # fmt: skip


def _s2r(code: Code, i: MachineInstruction) -> Part:
    target, name = i.operands
    if not isinstance(name, Symbol):
        raise Refused
    if name.name in ("SR_TID",):
        raise Refused(name.name)
    if name.name not in SPECIAL:
        raise Refused(name.name)
    return lanewise(_same, code.targets(target, "u32"), (code.special_row(SPECIAL[name.name]),))


_CLOCKS = {"SR_CLOCKLO": "%clock64", "SR_GLOBALTIMERLO": "%globaltimer"}


def _clock(code: Code, i: MachineInstruction, name: str) -> list[Part]:
    """A clock of 64 bits, or with .32 its lower word."""
    wide = code.unused("u64")
    record = ptx("mov.u64").record
    found = Part(record, record.execute, Draft(name, (wide,)))
    count = 1 if "32" in i.modifiers or i.opcode.startswith("S2") else 2
    words = lanewise(_words_of(count), code.targets(i.operands[0], "u32", count), (wide,), counted=False)
    return [found, replace(words, guarded=True)]


@cache
def _words_of(count: int) -> Function:
    def compute(value: Any) -> Any:
        low = np.asarray(value).astype(np.uint32)
        return low if count == 1 else (low, (np.asarray(value) >> np.uint64(32)).astype(np.uint32))

    return compute


def _cs2r(code: Code, i: MachineInstruction) -> Part | list[Part]:
    target, name = i.operands
    if isinstance(name, Symbol) and name.name in _CLOCKS:
        return _clock(code, i, _CLOCKS[name.name])
    if not isinstance(name, Symbol) or name.name != "SRZ":
        raise Refused(name.name if isinstance(name, Symbol) else "")
    targets = code.targets(target, "u32", 1 if "32" in i.modifiers else 2)
    if len(targets) == 1:
        return lanewise(_same, targets, (np.uint32(0),))
    return lanewise(_zeros, targets, ())


def _zeros() -> tuple[Any, Any]:
    return np.uint32(0), np.uint32(0)


# -- all predicates at once ---------------------------------------------------------------------------

_BYTES = {"B0": 0, "B1": 8, "B2": 16, "B3": 24}


@cache
def _packing(bits: tuple[int, ...], shift: int) -> Function:
    """A word with some bits replaced by predicates."""
    mask = sum(1 << bit + shift for bit in bits)

    def compute(word: Any, *predicates: Any) -> Any:
        result = np.asarray(word) & np.uint32(~mask & 0xFFFFFFFF)
        for bit, predicate in zip(bits, predicates, strict=True):
            result = result | np.asarray(predicate).astype(np.uint32) << np.uint32(bit + shift)
        return result

    return compute


def _mask_bits(operand: Operand) -> tuple[int, ...]:
    mask = _table(operand)
    return tuple([n for n in range(7) if mask >> n & 1])


def _p2r(code: Code, i: MachineInstruction) -> Part:
    target, names, word, mask = i.operands
    if names not in (Symbol("PR"), Symbol("UPR")):
        raise Refused
    file = "P" if names == Symbol("PR") else "UP"
    shift = next((_BYTES[m] for m in i.modifiers if m in _BYTES), 0)
    bits = _mask_bits(mask)
    given: list[tuple[Any, str]] = [(word, "u32"), *[(code.row(file, n, "pred"), "pred") for n in bits]]
    return code.apply(i, _packing(bits, shift), [(target, "u32")], given)


@cache
def _unpacking(bits: tuple[int, ...], shift: int) -> Function:
    def compute(word: Any) -> Any:
        found = [(np.asarray(word) >> np.uint32(bit + shift) & np.uint32(1)) == 1 for bit in bits]
        return found[0] if len(found) == 1 else found

    return compute


def _r2p(code: Code, i: MachineInstruction) -> Part:
    names, word, mask = i.operands
    if names not in (Symbol("PR"), Symbol("UPR")):
        raise Refused
    file = "P" if names == Symbol("PR") else "UP"
    changes = changes_of(word)
    shift = _BYTES[changes[0]] if changes and changes[0] in _BYTES else 0
    bits = _mask_bits(mask)
    assert isinstance(word, Register)
    source: Source = code.words(Register(word.file, word.number), 1)[0]
    targets: tuple[Slot, ...] = tuple([code.row(file, n, "pred") for n in bits])
    return lanewise(_unpacking(bits, shift), targets, (source,))


RECORDS = (
    Opcode("LOP3 ULOP3", _lop3_lower, "LUT PAND"),
    Opcode("PLOP3 UPLOP3", _plop3_lower, "LUT"),
    Opcode("SHF USHF", _shf, "L R U32 S32 U64 S64 HI W"),
    Opcode("PRMT UPRMT", _prmt),
    Opcode("SGXT USGXT", _sgxt, "U32 W"),
    Opcode("BMSK UBMSK", _bmsk, "W"),
    Opcode("SEL USEL", partial(_sel, "u32"), "64"),
    Opcode("FSEL", partial(_sel, "f32")),
    Opcode("MOV UMOV", _mov, "64", "FILL"),
    Opcode("S2R S2UR", _s2r),
    Opcode("CS2R CS2UR", _cs2r, "32 64"),
    Opcode("P2R UP2UR", _p2r, "B0 B1 B2 B3"),
    Opcode("R2P UR2UP", _r2p),
)  # fmt: skip
