"""Integer arithmetic; it wraps as registers do."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.arithmetic import integers
from gemmsmith.sim.instructions.lanewise import Choice, Function, lanewise
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.ptx.types import DTYPES, INTEGERS, SIGNED

_ANY = {"type": INTEGERS}
_SIGNED = {"type": SIGNED}
_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_HALVES = {"half": "lo hi", "type": "u32 s32"}
_DOT = {"a": "u32 s32", "b": "u32 s32"}


def _dot(parts: int, m: Modifiers) -> Function:
    return integers.dot_product(parts, m["a"] == "s32", m["b"] == "s32", m.get("half") == "hi")


def _differences(m: Modifiers) -> Function:
    if m["type"] != m["type2"]:
        raise Refused
    return integers.byte_differences(m["type"] == "s32", "add" in m)


def _pairwise(function: Function) -> Choice:
    return lambda m: integers.pairwise(function, m["type"] == "s16x2")


RECORDS = (
    lanewise("add.type", "type, type -> type", np.add, where=_ANY),
    lanewise("sub.type", "type, type -> type", np.subtract, where=_ANY),
    lanewise("mul.lo.type", "type, type -> type", np.multiply, where=_ANY),
    lanewise("mul.hi.type", "type, type -> type", integers.multiply_high, where=_ANY),
    lanewise("mad.lo.type", "type, type, type -> type", integers.mad_low, where=_ANY),
    lanewise("mad.hi.type", "type, type, type -> type", integers.mad_high, where=_ANY),
    *(
        record
        for kind, wide in _WIDER.items()
        for record in (
            lanewise(f"mul.wide.{kind}", f"{kind}, {kind} -> {wide}", integers.multiply_wide(DTYPES[wide])),
            lanewise(f"mad.wide.{kind}", f"{kind}, {kind}, {wide} -> {wide}", integers.mad_wide(DTYPES[wide])),
        )
    ),
    lanewise("sad.type", "type, type, type -> type", integers.sum_of_difference, where=_ANY),
    lanewise("div.type", "type, type -> type", integers.divide, where=_ANY),
    lanewise("rem.type", "type, type -> type", integers.remainder, where=_ANY),
    lanewise("min.type", "type, type -> type", np.minimum, where=_ANY),
    lanewise("max.type", "type, type -> type", np.maximum, where=_ANY),
    lanewise("neg.type", "type -> type", np.negative, where=_SIGNED),
    lanewise("abs.type", "type -> type", np.abs, where=_SIGNED),
    lanewise("add.sat.s32", "s32, s32 -> s32", integers.add_saturated),
    lanewise("sub.sat.s32", "s32, s32 -> s32", integers.subtract_saturated),
    lanewise("mad.hi.sat.s32", "s32, s32, s32 -> s32", integers.mad_high_saturated),
    lanewise("min.relu.s32", "s32, s32 -> s32", lambda a, b: np.maximum(np.minimum(a, b), np.int32(0))),
    lanewise("max.relu.s32", "s32, s32 -> s32", lambda a, b: np.maximum(np.maximum(a, b), np.int32(0))),
    *(
        lanewise(f"{name}.type", "b32, b32 -> b32", where={"type": "u16x2 s16x2"}, choose=_pairwise(function))
        for name, function in (("add", np.add), ("min", np.minimum), ("max", np.maximum))
    ),
    *(
        lanewise(f"{name}.relu.s16x2", "b32, b32 -> b32", integers.pairwise(function, signed=True, relu=True))
        for name, function in (("min", np.minimum), ("max", np.maximum))
    ),
    lanewise("mul24.half.type", "type, type -> type", where=_HALVES,
             choose=lambda m: integers.multiply_24(m["half"] == "hi")),
    lanewise("mad24.half.type", "type, type, type -> type", where=_HALVES,
             choose=lambda m: integers.mad_24(m["half"] == "hi")),
    lanewise("mad24.hi.sat.s32", "s32, s32, s32 -> s32", integers.mad_24(True, saturate=True)),
    lanewise("vabsdiff4.u32.type.type2.add?", "b32, b32, b32 -> b32", where={"type": "u32 s32", "type2": "u32 s32"},
             choose=_differences),
    lanewise("dp4a.a.b", "b32, b32, b32 -> b32", where=_DOT, choose=lambda m: _dot(4, m)),
    lanewise("dp2a.half.a.b", "b32, b32, b32 -> b32", where={**_DOT, "half": "lo hi"}, choose=lambda m: _dot(2, m)),
)  # fmt: skip
