"""Arithmetic of many words: add, sub and mad that write the carry flag (.cc) or read it (addc, subc, madc)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.arithmetic import integers
from gemmsmith.sim.instructions.lanewise import Function, compute_several
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import AnyRecord, Draft, Record
from gemmsmith.sim.lowering.places import Lowering, operands
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.ptx.types import Array

_TYPES = "u32 s32 u64 s64"


@dataclass(frozen=True)
class Form:
    """A function with the carry as its last argument and second result, and the type of the others."""

    function: Function
    kind: str
    arguments: int
    reads: bool
    writes: bool


def _raw(x: Array) -> Array:
    return np.asarray(x).view(f"u{np.asarray(x).dtype.itemsize}")


def _add(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    kind, x, y = np.asarray(a).dtype, _raw(a), _raw(b)
    one = np.asarray(carry).astype(x.dtype)
    total = x + y + one
    return total.view(kind), (total < x) | ((total == x) & np.asarray(carry, bool))


def _subtract(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    kind, x, y = np.asarray(a).dtype, _raw(a), _raw(b)
    one = np.asarray(borrow).astype(x.dtype)
    return (x - y - one).view(kind), (x < y) | ((x == y) & np.asarray(borrow, bool))


def _multiply(part: str) -> Callable[..., tuple[Array, Array]]:
    multiply: Function = np.multiply if part == "lo" else integers.multiply_high
    return lambda a, b, c, carry: _add(multiply(a, b), c, carry)


@dataclass(frozen=True)
class _Fixed:
    """A function whose carry comes from nowhere."""

    function: Function

    def __call__(self, *values: Array) -> tuple[Array, Array]:
        first, second = self.function(*values, np.bool_(False))
        return first, second


def _lower(code: Lowering, i: Instruction, form: Form) -> Draft[Function]:
    target, *given = operands(i, 1 + form.arguments)
    sources = [code.source(o, form.kind) for o in given]
    carry = code.carry()
    function = form.function if form.reads else _Fixed(form.function)
    return Draft(function, (code.slot(target, form.kind), carry if form.writes else code.unused("pred")),
                 tuple([*sources, carry] if form.reads else sources))  # fmt: skip


def _record(pattern: str, function: Callable[[Modifiers], Function], arguments: int, reads: bool) -> AnyRecord:
    where = {"type": _TYPES, **({"part": "lo hi"} if "part" in pattern else {})}

    def decode(m: Modifiers) -> Form:
        return Form(function(m), m["type"], arguments, reads, "cc" in m)

    return Record(pattern, where=where, decode=decode, lower=_lower, execute=compute_several)


RECORDS = (
    _record("add.cc.type", lambda _: _add, 2, reads=False),
    _record("addc.cc?.type", lambda _: _add, 2, reads=True),
    _record("sub.cc.type", lambda _: _subtract, 2, reads=False),
    _record("subc.cc?.type", lambda _: _subtract, 2, reads=True),
    _record("mad.part.cc.type", lambda m: _multiply(m["part"]), 3, reads=False),
    _record("madc.part.cc?.type", lambda m: _multiply(m["part"]), 3, reads=True),
)
