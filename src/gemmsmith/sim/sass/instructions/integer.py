"""Integer arithmetic of general and uniform registers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gemmsmith.sim.arithmetic import integers
from gemmsmith.sim.lowering.operation import Source
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.sass.code import Code, changes_of
from gemmsmith.sim.sass.meaning import Function, Part, function
from gemmsmith.sim.sass.record import Opcode
from gemmsmith.sim.sass.syntax import Immediate, MachineInstruction, Operand, Register

_MASK = np.uint64(0xFFFFFFFF)
Typed = list[tuple[Operand | Source, str]]


def predicates_after(i: MachineInstruction, first: int) -> tuple[list[Operand], list[Operand]]:
    """Operands from ``first`` on: the predicates at their start, which are results, and the rest."""
    rest = list(i.operands[first:])
    results: list[Operand] = []
    while rest and isinstance(rest[0], Register) and rest[0].predicate:
        results.append(rest.pop(0))
    return results, rest


def split_trailing(operands: list[Operand]) -> tuple[list[Operand], list[Operand]]:
    """Operands before the predicates at the end, and these."""
    values = list(operands)
    trailing: list[Operand] = []
    while values and isinstance(values[-1], Register) and values[-1].predicate:
        trailing.insert(0, values.pop())
    return values, trailing


# -- additions with carries ---------------------------------------------------------------------------


@cache
def _sum_of(signs: tuple[str, ...], carries: int) -> Function:
    """The sum of words and carries: its low word, whether it carries, whether it carries twice.

    A word is subtracted as its complement plus one, so that a difference carries unless it borrows.
    """

    def total(*values: Array) -> tuple[Array, Array, Array]:
        words, given = values[: len(signs)], values[len(signs) :]
        result: Any = np.uint64(0)
        for word, sign in zip(words, signs, strict=True):
            value = np.asarray(word).astype(np.uint64)
            if sign in ("-", "~"):
                value = value ^ _MASK
            result = result + value + np.uint64(sign == "-")
        for carry in given:
            result = result + np.asarray(carry).astype(np.uint64)
        above = result >> np.uint64(32)
        return (result & _MASK).astype(np.uint32), above >= 1, above >= 2

    assert carries >= 0
    return total


def _unsigned(i: MachineInstruction, code: Code, operand: Operand) -> tuple[Source, str]:
    """A word without its sign, and the sign."""
    changes = changes_of(operand)
    if len(changes) > 1 or (changes and changes[0] not in ("-", "~")):
        raise Refused
    return code.source(i, operand, "u32")[0], changes[0] if changes else ""


def _iadd3(code: Code, i: MachineInstruction) -> Part:
    if "64" in i.modifiers:
        return _add64(code, i)
    results, rest = predicates_after(i, 1)
    values, carries = split_trailing(rest)
    if len(results) > 2 or not 1 <= len(values) <= 3 or len(carries) > 2 or bool(carries) != ("X" in i.modifiers):
        raise Refused
    words = [_unsigned(i, code, value) for value in values]
    targets: list[tuple[Any, str]] = [(i.operands[0], "u32")]
    targets += [(result, "pred") for result in results]
    found = _sum_of(tuple([sign for _, sign in words]), len(carries))
    given: Typed = [(word, "u32") for word, _ in words]
    given += [(carry, "pred") for carry in carries]
    return code.apply(i, _first(found, len(targets)), targets, given)


@cache
def _first(found: Function, count: int) -> Function:
    """The first results of a function."""
    if count == 1:
        return lambda *values: found(*values)[0]
    return lambda *values: found(*values)[:count]


def _add64(code: Code, i: MachineInstruction) -> Part:
    target, *values = i.operands
    if set(i.modifiers) != {"64"} or len(values) not in (2, 3):
        raise Refused
    return code.apply(i, _total, [(target, "u64")], [(v, "u64") for v in values])


def _total(*values: Array) -> Array:
    result: Array = np.add(values[0], values[1])
    return result if len(values) == 2 else np.add(result, values[2])


def _viadd(code: Code, i: MachineInstruction) -> Part:
    target, a, b = i.operands
    return code.apply(i, np.add, [(target, "u32")], [(a, "u32"), (b, "u32")])


# -- IMAD ---------------------------------------------------------------------------------------------


def _mad_low(a: Array, b: Array, c: Array, carry: Array | None = None) -> Array:
    result: Array = a * b + c
    return result if carry is None else result + np.asarray(carry).astype(result.dtype)


@cache
def _mad_wide(signed: bool) -> Function:
    kind = np.dtype(np.int64) if signed else np.dtype(np.uint64)

    def compute(a: Array, b: Array, c: Array, carry: Array | None = None) -> tuple[Array, Array]:
        product = (np.asarray(a).astype(kind) * np.asarray(b).astype(kind)).view(np.uint64)
        added = np.asarray(c).view(np.uint64)
        total = product + added
        over = total < product
        if carry is not None:
            more = total + np.asarray(carry).astype(np.uint64)
            over, total = over | (more < total), more
        return total, over

    return compute


@cache
def _mad_high(signed: bool) -> Function:
    """The upper word of a product plus 64 bits, and whether the sum carries."""
    found = _mad_wide(signed)

    def compute(a: Array, b: Array, c: Array, carry: Array | None = None) -> tuple[Array, Array]:
        total, over = found(a, b, c, carry)
        return (total >> np.uint64(32)).astype(np.uint32), over

    return compute


def _imad(code: Code, i: MachineInstruction) -> Part:
    results, rest = predicates_after(i, 1)
    values, carries = split_trailing(rest)
    if len(values) != 3 or len(carries) > 1 or len(results) > 1:
        raise Refused
    signed = "U32" not in i.modifiers
    kind = "s32" if signed else "u32"
    given: Typed = [(values[0], kind), (values[1], kind)]
    if "WIDE" in i.modifiers or "HI" in i.modifiers:
        given.append((values[2], "u64"))
        given += [(carry, "pred") for carry in carries]
        upper = "HI" in i.modifiers
        targets: list[Any] = [(i.operands[0], "u32" if upper else "u64"), *[(result, "pred") for result in results]]
        found = _mad_high(signed) if upper else _mad_wide(signed)
        return code.apply(i, _first(found, len(targets)), targets, given)
    if results:
        raise Refused
    given = [(values[0], "u32"), (values[1], "u32"), (values[2], "u32"), *[(carry, "pred") for carry in carries]]
    return code.apply(i, _mad_low, [(i.operands[0], "u32")], given)


# -- minima, absolute values --------------------------------------------------------------------------


@cache
def _least(added: bool, relu: bool) -> Function:
    """The smaller of two if the predicate holds, else the larger; with ``added``, of a sum and a third.

    ``relu``: zero for a negative result.
    """

    def compute(*values: Array) -> Array:
        *first, b, smaller = values
        a = np.add(*first) if added else first[0]
        found = np.where(smaller, np.minimum(a, b), np.maximum(a, b))
        if len(first) == 2 and not added:
            found = np.where(smaller, np.minimum(found, first[1]), np.maximum(found, first[1]))
        return np.maximum(found, 0) if relu else found

    return compute


def _minmax(code: Code, i: MachineInstruction) -> Part:
    target, *values, which = i.operands
    added = "ADD" in i.opcode
    kind = "u32" if "U32" in i.modifiers else "s32"
    if len(values) != 2 + (added or "3" in i.opcode):
        raise Refused
    found = _least(added, "RELU" in i.modifiers)
    return code.apply(i, found, [(target, kind)], [*[(v, kind) for v in values], (which, "pred")])


def _vabsdiff(code: Code, i: MachineInstruction) -> Part:
    target, a, b, c = i.operands
    kind = "u32" if "U32" in i.modifiers else "s32"
    return code.apply(i, integers.sum_of_difference, [(target, kind)], [(a, kind), (b, kind), (c, kind)])


def _iabs(code: Code, i: MachineInstruction) -> Part:
    target, value = i.operands
    return code.apply(i, np.abs, [(target, "s32")], [(value, "s32")])


# -- comparisons --------------------------------------------------------------------------------------

COMPARE: dict[str, Function] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
    "T": lambda a, b: np.ones(np.broadcast(a, b).shape, bool),
    "F": lambda a, b: np.zeros(np.broadcast(a, b).shape, bool),
}  # fmt: skip
COMBINE: dict[str, Function] = {"AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor}
_STRICT = {"LE": np.less, "GE": np.greater, "LT": np.less, "GT": np.greater}


@cache
def compared(compare: Function, combine: str) -> Function:
    """A comparison, and its opposite, each combined with a predicate."""
    join = COMBINE[combine]

    def compute(a: Array, b: Array, other: Array) -> tuple[Array, Array]:
        holds = compare(a, b)
        return join(holds, other), join(np.logical_not(holds), other)

    return compute


@cache
def _extended(name: str, combine: str) -> Function:
    """The comparison of upper words, with that of the lower words as the last predicate."""
    join = COMBINE[combine]

    def compute(a: Array, b: Array, other: Array, lower: Array) -> tuple[Array, Array]:
        if name == "EQ":
            holds = (a == b) & lower
        elif name == "NE":
            holds = (a != b) | lower
        else:
            holds = _STRICT[name](a, b) | ((a == b) & lower)
        return join(holds, other), join(np.logical_not(holds), other)

    return compute


def _isetp(code: Code, i: MachineInstruction) -> Part:
    first, second, a, b, *rest = i.operands
    name = next(m for m in i.modifiers if m in COMPARE)
    combine = next((m for m in i.modifiers if m in COMBINE), "AND")
    kind = "u32" if "U32" in i.modifiers else "s32"
    given: Typed = [(a, kind), (b, kind), *[(p, "pred") for p in rest]]
    if ("EX" in i.modifiers) != (len(rest) == 2) or not rest:
        raise Refused
    found = _extended(name, combine) if "EX" in i.modifiers else compared(COMPARE[name], combine)
    return code.apply(i, found, [(first, "pred"), (second, "pred")], given)


# -- LEA ----------------------------------------------------------------------------------------------


@cache
def _lea(shift: int, sign: str) -> Function:
    """(a << shift) + b, and whether the sum carries."""

    def compute(a: Array, b: Array) -> tuple[Array, Array]:
        value = (np.asarray(a) << np.uint32(shift)).astype(np.uint32) if shift < 32 else np.zeros_like(a)
        return _sum_of((sign, ""), 0)(value, b)[:2]  # type: ignore[no-any-return]

    return compute


@cache
def _lea_high(shift: int, signed: bool, sign: str) -> Function:
    """The upper word of (c:a << shift), plus b and a carry; ``signed``: c is the sign of a."""

    def compute(a: Array, b: Array, *more: Array) -> tuple[Array, Array]:
        if signed:
            upper = (np.asarray(a).view(np.int32).astype(np.int64) << np.int64(shift)).view(np.uint64)
            carries = more
        else:
            c, *carries_ = more
            carries = tuple(carries_)
            joined = np.asarray(a).astype(np.uint64) | np.asarray(c).astype(np.uint64) << np.uint64(32)
            if sign == "-":
                joined = np.negative(joined)
            upper = joined << np.uint64(shift)
        word = (upper >> np.uint64(32)).astype(np.uint32)
        if sign == "-" and signed:
            word = np.negative(word)
        found: tuple[Array, Array] = _sum_of(("", ""), len(carries))(word, b, *carries)[:2]
        return found

    return compute


def _lea_lower(code: Code, i: MachineInstruction) -> Part:
    results, rest = predicates_after(i, 1)
    values, carries = split_trailing(rest)
    *words, shift = values
    if not isinstance(shift, Immediate) or shift.value is None or len(results) > 1:
        raise Refused
    given: Typed = []
    word, sign = _unsigned(i, code, words[0])
    given = [(word, "u32"), *[(w, "u32") for w in words[1:]], *[(carry, "pred") for carry in carries]]
    targets: list[Any] = [(i.operands[0], "u32"), *[(result, "pred") for result in results]]
    signed, upper = "SX32" in i.modifiers, "HI" in i.modifiers
    if bool(carries) != ("X" in i.modifiers) or len(words) != (3 if upper and not signed else 2):
        raise Refused
    if not upper:
        if carries:
            raise Refused
        return code.apply(i, _first(_lea(shift.value, sign), len(targets)), targets, given)
    return code.apply(i, _first(_lea_high(shift.value, signed, sign), len(targets)), targets, given)


# -- dot products -------------------------------------------------------------------------------------


def _idp(code: Code, i: MachineInstruction) -> Part:
    target, a, b, c = i.operands
    kinds = [m for m in i.modifiers if m in ("S8", "U8", "S16", "U16")]
    if i.modifiers[:1] == ("4A",) and len(kinds) == 2:
        found = function(f"dp4a.{kinds[0][0].lower()}32.{kinds[1][0].lower()}32")
        return code.apply(i, found, [(target, "s32")], [(a, "u32"), (b, "u32"), (c, "s32")])
    raise Refused


def _count(name: str) -> Any:
    def lower(code: Code, i: MachineInstruction) -> Part:
        target, value = i.operands
        return code.apply(i, function(name), [(target, "u32")], [(value, "u32")])

    return lower


def _flo(code: Code, i: MachineInstruction) -> Part:
    """The number of the highest set bit, or with .SH how far it is from the top; all ones for none."""
    target, *rest, value = i.operands
    if rest and not (isinstance(rest[0], Register) and rest[0].predicate and rest[0].number is None):
        raise Refused
    kind = "u32" if "U32" in i.modifiers else "s32"
    return code.apply(i, integers.find_leading("SH" in i.modifiers), [(target, "u32")], [(value, kind)])


_SUM = "X 64"
RECORDS = (
    Opcode("IADD3 UIADD3 IADD UIADD", _iadd3, _SUM),
    Opcode("VIADD UVIADD", _viadd, "", "U32"),
    Opcode("IMAD UIMAD", _imad, "WIDE HI U32 X", "MOV IADD SHL S32"),
    Opcode("IMNMX UIMNMX VIMNMX UVIMNMX VIMNMX3 VIADDMNMX UVIADDMNMX", _minmax, "U32 RELU", "S32"),
    Opcode("IABS", _iabs),
    Opcode("VABSDIFF", _vabsdiff, "U32"),
    Opcode("ISETP UISETP", _isetp, f"{' '.join(COMPARE)} {' '.join(COMBINE)} U32 EX", "S32"),
    Opcode("LEA ULEA", _lea_lower, "HI X SX32"),
    Opcode("IDP", _idp, "4A S8 U8"),
    Opcode("POPC UPOPC", _count("popc.b32")),
    Opcode("BREV UBREV", _count("brev.b32")),
    Opcode("FLO UFLO", _flo, "U32 SH", "S32"),
)  # fmt: skip
