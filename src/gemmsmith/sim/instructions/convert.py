"""cvt: conversions between integer and floating-point types, with the rounding PTX names."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.arithmetic import conversions, rounding
from gemmsmith.sim.instructions.lanewise import CONVERT, Function, lanewise
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.ptx.types import DTYPES, INTEGERS

_WHOLE = f"u8 s8 {INTEGERS}"
_FLOATS = "f16 bf16 f32 f64"
_WIDTH = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
_FP8 = "e4m3x2 e5m2x2"


def _to_integer(m: Modifiers) -> Function:
    return conversions.float_to_integer(m["mode"], m["to"], m["from"], "ftz" in m)


def _from_integer(m: Modifiers) -> Function:
    return conversions.integer_to_float(m["to"], m["mode"], "sat" in m)


def _narrowing(m: Modifiers) -> Function:
    """To a narrower type, with a rounding mode; .relu for fp16 and bf16."""
    to, source, mode = m["to"], m["from"], m["mode"]
    if _WIDTH[to] > _WIDTH[source] or to == source:
        raise Refused
    if (to, source, mode) == ("f32", "f64", "rn") and not {"ftz", "sat"} & set(m):
        return conversions.double_to_single
    return conversions.float_to_float(to, source, mode, "ftz" in m, "sat" in m, "relu" in m)


def _widening(m: Modifiers) -> Function:
    """To a wider type or the same, which needs no rounding."""
    to, source = m["to"], m["from"]
    if _WIDTH[to] < _WIDTH[source] or (_WIDTH[to] == _WIDTH[source] and "sat" not in m and "ftz" not in m):
        raise Refused
    return conversions.float_to_float(to, source, "rn", "ftz" in m, "sat" in m)


def _integral(m: Modifiers) -> Function:
    if m["to"] != m["from"]:
        raise Refused
    return conversions.float_to_float(m["to"], m["from"], m["mode"], "ftz" in m, "sat" in m)


def _pair(m: Modifiers) -> Function:
    to = m["to"].removesuffix("x2")
    if m["mode"] == "rn" and "relu" not in m:
        return conversions.pair(rounding.to_half if to == "f16" else rounding.to_bfloat)
    return conversions.pair(conversions.float_to_float(to, "f32", m["mode"], False, False, "relu" in m))


def _tf32(m: Modifiers) -> Function:
    mode, relu = m["mode"], "relu" in m
    return lambda a: conversions.to_tf32(np.asarray(a), mode, relu)


_ROUNDED = {"mode": conversions.ROUNDINGS}
_INTEGRAL = {"mode": " ".join(conversions.TO_INTEGER)}

RECORDS = (
    lanewise("cvt.to.from", "from -> to", where={"to": _WHOLE, "from": _WHOLE},
             choose=lambda m: conversions.integer_to_integer(DTYPES[m["to"]])),
    lanewise("cvt.sat.to.from", "from -> to", where={"to": _WHOLE, "from": _WHOLE},
             choose=lambda m: conversions.saturating(DTYPES[m["to"]], DTYPES[m["from"]])),
    lanewise("cvt.mode.ftz?.sat?.to.from", "from -> to", counts=CONVERT, choose=_to_integer,
             where={**_INTEGRAL, "to": _WHOLE, "from": _FLOATS}),
    lanewise("cvt.mode.sat?.to.from", "from -> to", where={**_ROUNDED, "to": _FLOATS, "from": _WHOLE}, counts=CONVERT,
             choose=_from_integer),
    lanewise("cvt.mode.ftz?.sat?.relu?.to.from", "from -> to", counts=CONVERT, choose=_narrowing,
             where={**_ROUNDED, "to": "f16 bf16 f32", "from": _FLOATS}),
    lanewise("cvt.ftz?.sat?.to.from", "from -> to", counts=CONVERT, choose=_widening,
             where={"to": "f16 f32 f64", "from": _FLOATS}),
    lanewise("cvt.mode.ftz?.sat?.to.from", "from -> to", counts=CONVERT, choose=_integral,
             where={**_INTEGRAL, "to": "f16 f32 f64", "from": "f16 f32 f64"}),
    lanewise("cvt.mode.bf16.bf16", "bf16 -> bf16", where=_INTEGRAL, counts=CONVERT,
             choose=lambda m: conversions.float_to_float("bf16", "bf16", m["mode"], ftz=False, sat=False)),
    lanewise("cvt.mode.relu?.to.f32", "f32, f32 -> to", counts=CONVERT, choose=_pair,
             where={"mode": "rn rz", "to": "f16x2 bf16x2"}),
    lanewise("cvt.mode.relu?.tf32.f32", "f32 -> b32", where={"mode": "rn rz rna"}, counts=CONVERT,
             choose=_tf32),
    lanewise("cvt.rn.satfinite.relu?.to.f32", "f32, f32 -> b16", where={"to": _FP8}, counts=CONVERT,
             choose=lambda m: conversions.to_fp8_pair(m["to"], "relu" in m)),
    lanewise("cvt.rn.satfinite.relu?.to.f16x2", "f16x2 -> b16", where={"to": _FP8}, counts=CONVERT,
             choose=lambda m: conversions.halves_to_fp8(m["to"], "relu" in m)),
    lanewise("cvt.rn.relu?.f16x2.from", "b16 -> f16x2", where={"from": _FP8}, counts=CONVERT,
             choose=lambda m: conversions.fp8_to_halves(m["from"], "relu" in m)),
    lanewise("cvt.pack.sat.to.s32", "s32, s32 -> b32", where={"to": "u16 s16"},
             choose=lambda m: conversions.pack_saturated(m["to"])),
    lanewise("cvt.pack.sat.to.s32.b32", "s32, s32, b32 -> b32", where={"to": "u8 s8"},
             choose=lambda m: conversions.pack_saturated(m["to"])),
)  # fmt: skip
