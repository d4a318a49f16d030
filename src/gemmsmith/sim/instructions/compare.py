"""Comparison and selection: setp and set, optionally combined with a predicate, selp, slct, testp and copysign."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from gemmsmith.sim.arithmetic import halves
from gemmsmith.sim.arithmetic.directed import flush32
from gemmsmith.sim.instructions.lanewise import (
    COMPARE,
    Function,
    compute_several,
    lanewise,
    optional_slots,
    with_negated,
)
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import AnyRecord, Draft, Record
from gemmsmith.sim.lowering.places import Lowering, operands
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.ptx.types import BITS, DTYPES, INTEGERS, SIGNED, UNSIGNED, Array

_ORDERED: dict[str, Function] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_UNSIGNED: dict[str, Function] = {
    **_ORDERED, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def _with_nan(plain: Function) -> Function:
    """A comparison that is true with a NaN."""
    return lambda a, b: plain(a, b) | (a != a) | (b != b)


# Ordered comparisons are false with a NaN; those that end in 'u' are true with one.
_FLOATING: dict[str, Function] = {
    **_ORDERED,
    "ne": lambda a, b: (a < b) | (a > b),
    **{f"{name}u": _with_nan(function) for name, function in _ORDERED.items()},
    "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
}
_EQUAL: dict[str, Function] = {"eq": np.equal, "ne": np.not_equal}
_COMBINE: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
# Types with the comparisons they know.
_FAMILIES = ((SIGNED, _ORDERED), (UNSIGNED, _UNSIGNED), (BITS, _EQUAL), ("f16 bf16 f32 f64", _FLOATING))


def _flush(kind: str, x: Array) -> Array:
    return flush32(x) if kind == "f32" else halves.flush(kind, np.atleast_1d(x))


def _comparison(comparisons: dict[str, Function], m: Modifiers) -> Function:
    """The comparison of a name, with .ftz if it says so."""
    plain, kind = comparisons[m["compare"]], m["type"]
    if "ftz" not in m:
        return plain
    return lambda a, b: plain(_flush(kind, a), _flush(kind, b))


def _setp(types: str, comparisons: dict[str, Function]) -> tuple[AnyRecord, ...]:
    """setp for some types: plain, combined with a predicate, and with a second result."""
    names = {"type": types, "compare": " ".join(comparisons)}
    combining = {**names, "combine": " ".join(_COMBINE)}

    def combined(m: Modifiers) -> Function:
        compare, combine = _comparison(comparisons, m), _COMBINE[m["combine"]]
        return lambda a, b, predicate: combine(compare(a, b), predicate)

    def both(m: Modifiers) -> BothForm:
        return BothForm(_both(_comparison(comparisons, m), m.get("combine", "")), m["type"], 2 + ("combine" in m))

    return (
        lanewise("setp.compare.ftz?.type", "type, type -> pred", where=names, counts=COMPARE,
                 choose=partial(_comparison, comparisons)),
        lanewise("setp.compare.combine.ftz?.type", "type, type, pred -> pred", choose=combined, counts=COMPARE,
                 where=combining),
        Record("setp.compare.combine?.ftz?.type", where=combining, decode=both, lower=_lower_both,
               execute=compute_several, counts=COMPARE),
    )  # fmt: skip


@dataclass(frozen=True)
class BothForm:
    """A comparison with two results, the type of what is compared, and how many operands there are."""

    function: Function
    kind: str
    sources: int


def _both(compare: Function, combine: str) -> Function:
    """The result of a comparison, and of the opposite; each combined with a predicate."""
    if not combine:
        return lambda a, b: (compare(a, b), np.logical_not(compare(a, b)))
    join = _COMBINE[combine]

    def compute(a: Array, b: Array, predicate: Array) -> tuple[Array, Array]:
        holds = compare(a, b)
        return join(holds, predicate), join(np.logical_not(holds), predicate)

    return compute


def _lower_both(code: Lowering, i: Instruction, form: BothForm) -> Draft[Function]:
    first, second, *given = operands(i, 2 + form.sources)
    function, sources = with_negated(form.function, tuple(given))
    kinds = (form.kind, form.kind, "pred")
    return Draft(function, optional_slots(code, (first, second), ("pred", "pred")),
                 tuple([code.source(o, kind) for o, kind in zip(sources, kinds, strict=False)]))  # fmt: skip


def _pair_setp(m: Modifiers) -> BothForm:
    """setp of both numbers of a word: two results."""
    kind, combine = m["type"], m.get("combine", "")
    single = {**m, "type": kind.removesuffix("x2")}
    compare = _comparison(_FLOATING, single)

    def compute(a: Array, b: Array, predicate: Array | bool = True) -> tuple[Array, Array]:
        pairs = zip(halves.unpacked(kind, a), halves.unpacked(kind, b), strict=True)
        low, high = (compare(x, y) for x, y in pairs)
        if not combine:
            return low, high
        return _COMBINE[combine](low, predicate), _COMBINE[combine](high, predicate)

    return BothForm(compute, kind, 2 + bool(combine))


def _truth(to: str) -> tuple[Array, Array]:
    """What set writes for true and for false: all ones or 1.0, and zero."""
    kind = DTYPES[to]
    true = np.asarray(1, kind) if to in ("f16", "bf16", "f32") else ~np.asarray(0, kind)
    return true, np.asarray(0, kind)


def _set(types: str, comparisons: dict[str, Function], to: str) -> tuple[AnyRecord, AnyRecord]:
    names = {"type": types, "compare": " ".join(comparisons), "to": to}

    def plain(m: Modifiers) -> Function:
        compare, (true, false) = _comparison(comparisons, m), _truth(m["to"])
        return lambda a, b: np.where(compare(a, b), true, false)

    def combined(m: Modifiers) -> Function:
        compare, combine, (true, false) = _comparison(comparisons, m), _COMBINE[m["combine"]], _truth(m["to"])
        return lambda a, b, predicate: np.where(combine(compare(a, b), predicate), true, false)

    return (
        lanewise("set.compare.ftz?.to.type", "type, type -> to", where=names, choose=plain, counts=COMPARE),
        lanewise("set.compare.combine.ftz?.to.type", "type, type, pred -> to", choose=combined, counts=COMPARE,
                 where={**names, "combine": " ".join(_COMBINE)}),
    )  # fmt: skip


def _pair_set(m: Modifiers) -> Function:
    """set of both numbers of a word: 1.0 or all ones for each."""
    kind, to = m["type"], m["to"]
    compare = _comparison(_FLOATING, {**m, "type": kind.removesuffix("x2")})
    one = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(to, 0xFFFF)

    def compute(a: Array, b: Array) -> Array:
        pairs = zip(halves.unpacked(kind, a), halves.unpacked(kind, b), strict=True)
        low, high = (compare(x, y).astype(np.uint32) for x, y in pairs)
        word: Array = (low | (high << np.uint32(16))) * np.uint32(one)
        return word

    return compute


def _select(m: Modifiers) -> Function:
    """slct: the first if the third is not negative."""
    if "ftz" in m:
        return lambda a, b, c: np.where(flush32(c) >= 0, a, b)
    return lambda a, b, c: np.where(c >= 0, a, b)


def _is(test: str) -> Function:
    """testp, by the exponent and fraction of an fp32 or fp64 number."""

    def check(a: Array) -> Array:
        size, tiny = np.abs(a), np.finfo(np.asarray(a).dtype).tiny
        results: dict[str, Array] = {
            "finite": np.isfinite(a), "infinite": np.isinf(a), "number": a == a, "notanumber": a != a,
            "normal": np.isfinite(a) & ((size >= tiny) | (a == 0)), "subnormal": (size < tiny) & (a != 0),
        }  # fmt: skip
        return results[test]

    return check


def _copy_sign(a: Array, b: Array) -> Array:
    """The size of b with the sign of a, bit by bit."""
    kind = np.asarray(a).dtype
    raw = np.dtype(f"u{kind.itemsize}")
    sign = raw.type(1 << (8 * kind.itemsize - 1))
    x, y = np.asarray(a).view(raw), np.asarray(b).view(raw)
    joined: Array = ((x & sign) | (y & ~sign)).view(kind)
    return joined


_PAIRS = {"type": "f16x2 bf16x2", "compare": " ".join(_FLOATING)}
_SELECTED = f"{BITS} {INTEGERS} f32 f64"

RECORDS = (
    *(record for types, comparisons in _FAMILIES for record in _setp(types, comparisons)),
    Record("setp.compare.combine?.ftz?.type", where={**_PAIRS, "combine": " ".join(_COMBINE)}, decode=_pair_setp,
           lower=_lower_both, execute=compute_several, counts=COMPARE),
    *(record for types, comparisons in _FAMILIES for record in _set(types, comparisons, "u32 s32 f32 u16 f16 bf16")),
    lanewise("set.compare.ftz?.to.type", "type, type -> to", choose=_pair_set, counts=COMPARE,
             where={**_PAIRS, "to": "f16x2 bf16x2 u32 s32"}),
    lanewise("selp.type", "type, type, pred -> type", lambda a, b, predicate: np.where(predicate, a, b),
             where={"type": _SELECTED}),
    lanewise("slct.ftz?.type.by", "type, type, by -> type", choose=_select,
             where={"type": _SELECTED, "by": "s32 f32"}),
    lanewise("testp.test.type", "type -> pred", choose=lambda m: _is(m["test"]), counts=COMPARE,
             where={"test": "finite infinite number notanumber normal subnormal", "type": "f32 f64"}),
    lanewise("copysign.type", "type, type -> type", _copy_sign, where={"type": "f32 f64"}),
)  # fmt: skip
