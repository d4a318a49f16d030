"""Floating-point arithmetic of fp32, fp64 and fp16 numbers, and conversions."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from gemmsmith.sim.arithmetic import halves, sfu
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.lowering.traits import Counted, Mix, Profiled, Quantity, Traits
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.sass.code import Code
from gemmsmith.sim.sass.instructions.integer import COMBINE, Typed, compared
from gemmsmith.sim.sass.meaning import Function, Part, function, join
from gemmsmith.sim.sass.record import Lower, Opcode
from gemmsmith.sim.sass.syntax import Immediate, MachineInstruction, Operand

_MODES = {"RN": "rn", "RM": "rm", "RP": "rp", "RZ": "rz"}
_ROUNDING = " ".join(_MODES)


def _mode(i: MachineInstruction) -> str:
    return next((_MODES[m] for m in i.modifiers if m in _MODES), "rn")


def _flags(i: MachineInstruction, *names: str) -> str:
    return "".join(f".{name}" for name in names if name.upper() in i.modifiers)


# -- fp32 and fp64 ------------------------------------------------------------------------------------


def _arithmetic(name: str, kind: str) -> Lower:
    def lower(code: Code, i: MachineInstruction) -> Part:
        target, *values = i.operands
        like = f"{name}.{_mode(i)}{_flags(i, 'ftz', 'sat')}.{kind}"
        return code.apply(i, function(like, code.mod32 and kind == "f32"), [(target, kind)],
                          [(v, kind) for v in values], like)  # fmt: skip

    return lower


@cache
def _one_of(least: Function, greatest: Function) -> Function:
    return lambda a, b, smaller: np.where(smaller, least(a, b), greatest(a, b))


def _minmax(kind: str) -> Lower:
    def lower(code: Code, i: MachineInstruction) -> Part:
        target, a, b, which = i.operands
        flags = _flags(i, "ftz") + (".NaN" if "NAN" in i.modifiers else "")
        if kind == "f64":
            flags = ""
        found = _one_of(function(f"min{flags}.{kind}"), function(f"max{flags}.{kind}"))
        return code.apply(i, found, [(target, kind)], [(a, kind), (b, kind), (which, "pred")])

    return lower


_COMPARED = "LT EQ LE GT NE GE NUM NAN LTU EQU LEU GTU NEU GEU"


@cache
def _comparison(name: str, ftz: bool, kind: str) -> Function:
    if name == "T":
        return lambda a, b: np.ones(np.broadcast(a, b).shape, bool)
    return function(f"setp.{name.lower()}{'.ftz' if ftz else ''}.{kind}")


def _setp(kind: str) -> Lower:
    def lower(code: Code, i: MachineInstruction) -> Part:
        first, second, a, b, other = i.operands
        name = next(m for m in i.modifiers if m in _COMPARED.split() or m == "T")
        combine = next(m for m in i.modifiers if m in COMBINE)
        found = compared(_comparison(name, "FTZ" in i.modifiers, kind), combine)
        return code.apply(i, found, [(first, "pred"), (second, "pred")], [(a, kind), (b, kind), (other, "pred")],
                          f"setp.eq.{kind}")  # fmt: skip

    return lower


@cache
def _setting(compare: Function, combine: str, as_float: bool) -> Function:
    found, one = compared(compare, combine), 0x3F800000 if as_float else 0xFFFFFFFF
    return lambda a, b, other: np.where(found(a, b, other)[0], np.uint32(one), np.uint32(0))


def _fset(code: Code, i: MachineInstruction) -> Part:
    target, a, b, other = i.operands
    name = next(m for m in i.modifiers if m in _COMPARED.split())
    combine = next(m for m in i.modifiers if m in COMBINE)
    found = _setting(_comparison(name, "FTZ" in i.modifiers, "f32"), combine, "BF" in i.modifiers)
    return code.apply(i, found, [(target, "u32")], [(a, "f32"), (b, "f32"), (other, "pred")])


@cache
def _upper_word(name: str) -> Function:
    """A function of the upper words of fp64 numbers."""
    found = function(name)

    def compute(high: Any) -> Any:
        wide = join(np.uint32(0), np.atleast_1d(high)).view(np.float64)
        return (np.ascontiguousarray(found(wide)).view(np.uint64) >> np.uint64(32)).astype(np.uint32)

    return compute


_SFU: dict[str, Function] = {
    "RCP": lambda a: sfu.rcp(np.atleast_1d(a)), "RSQ": lambda a: sfu.rsqrt(np.atleast_1d(a)),
    "SQRT": lambda a: sfu.sqrt(np.atleast_1d(a)), "EX2": lambda a: sfu.ex2(np.atleast_1d(a)),
    "LG2": lambda a: sfu.lg2(np.atleast_1d(a)), "SIN": lambda a: sfu.sine(np.atleast_1d(a)),
    "COS": lambda a: sfu.cosine(np.atleast_1d(a)), "TANH": lambda a: sfu.tanh(np.atleast_1d(a)),
}  # fmt: skip


def _mufu(code: Code, i: MachineInstruction) -> Part:
    target, value = i.operands
    (name,) = i.modifiers
    if name in ("RCP64H", "RSQ64H"):
        found = _upper_word("rcp.approx.ftz.f64" if name == "RCP64H" else "rsqrt.approx.ftz.f64")
        return code.apply(i, found, [(target, "u32")], [(value, "u32")])
    return code.apply(i, _SFU[name], [(target, "f32")], [(value, "f32")], "rcp.approx.f32")


def _needs_care(a: Array, b: Array) -> Array:
    """Whether a quotient of fp32 numbers takes the slow way.

    Both operands and the quotient must be normal, with room to spare: biased exponents of the divisor from 1 to 252,
    of the quotient within ±125 of one, and a dividend that is neither tiny nor infinite. The bounds are not measured.
    """
    above = (np.asarray(a).view(np.uint32) >> np.uint32(23) & np.uint32(255)).astype(np.int32)
    below = (np.asarray(b).view(np.uint32) >> np.uint32(23) & np.uint32(255)).astype(np.int32)
    apart = above - below
    found: Array = (below < 1) | (below > 252) | (above > 254) | (apart < -125) | (apart > 125) | (above < 24)
    return found


def _fchk(code: Code, i: MachineInstruction) -> Part:
    target, a, b = i.operands
    return code.apply(i, _needs_care, [(target, "pred")], [(a, "f32"), (b, "f32")])


# -- fp16 and bf16 ------------------------------------------------------------------------------------


def _pairs(i: MachineInstruction, kind: str) -> tuple[Operand, Typed]:
    """Target and operands; a literal is printed as two numbers, the upper first."""
    target, *rest = i.operands
    given: Typed = []
    n = 0
    while n < len(rest):
        if isinstance(rest[n], Immediate):
            given.append((np.uint32(i.immediate), kind))
            n += 2
        else:
            given.append((rest[n], kind))
            n += 1
    return target, given


# On sm_80 to sm_90 the tensor pipe executes HFMA2.MMA, and ncu counts it there.
_ON_TENSOR_CORES = Traits(
    counts=Counted(Profiled(Mix.OTHER_FP32, metrics=(("sm__inst_executed_pipe_tensor.sum", Quantity.EXECUTED),)))
)


def _halves(name: str) -> Lower:
    def lower(code: Code, i: MachineInstruction) -> Part:
        kind = "bf16x2" if "BF16_V2" in i.modifiers else "f16x2"
        target, given = _pairs(i, kind)
        if "F32" in i.modifiers:
            return code.apply(i, _single(name, kind), [(target, "f32")], given)
        flags = "" if kind == "bf16x2" else _flags(i, "ftz", "sat")
        part = code.apply(i, function(f"{name}.rn{flags}{_flags(i, 'relu')}.{kind}"), [(target, kind)], given)
        return replace(part, traits=_ON_TENSOR_CORES) if "MMA" in i.modifiers else part

    return lower


def _pair_minmax(code: Code, i: MachineInstruction) -> Part:
    kind = "bf16x2" if "BF16_V2" in i.modifiers else "f16x2"
    *rest, which = i.operands
    target, given = _pairs(replace(i, operands=tuple(rest)), kind)
    flags = ".NaN" if "NAN" in i.modifiers else ""
    found = _one_of(function(f"min{flags}.{kind}"), function(f"max{flags}.{kind}"))
    return code.apply(i, found, [(target, kind)], [*given, (which, "pred")])


@cache
def _pair_comparison(name: str, combine: str, kind: str) -> Function:
    """Comparisons of both numbers of two words, each combined with a predicate."""
    compare, join_with = function(f"setp.{name.lower()}.{kind.removesuffix('x2')}"), COMBINE[combine]

    def compute(a: Array, b: Array, other: Array) -> tuple[Array, Array]:
        pairs = zip(halves.unpacked(kind, a), halves.unpacked(kind, b), strict=True)
        low, high = (compare(x, y) for x, y in pairs)
        return join_with(low, other), join_with(high, other)

    return compute


def _hsetp2(code: Code, i: MachineInstruction) -> Part:
    """With H0_H0 and the like, both results compare the same numbers."""
    kind = "bf16x2" if "BF16_V2" in i.modifiers else "f16x2"
    first, second, *rest, other = i.operands
    _, given = _pairs(replace(i, operands=(first, *rest)), kind)
    name = next(m for m in i.modifiers if m in _COMPARED.split())
    combine = next(m for m in i.modifiers if m in COMBINE)
    return code.apply(i, _pair_comparison(name, combine, kind), [(first, "pred"), (second, "pred")],
                      [*given, (other, "pred")])  # fmt: skip


@cache
def _single(name: str, kind: str) -> Function:
    """Arithmetic in fp32 of the lower numbers of words."""
    found = function(f"{name}.rn.f32")

    def number(word: Any) -> Any:
        low = np.asarray(word) & np.uint32(0xFFFF)
        if kind == "bf16x2":
            return (low << np.uint32(16)).view(np.float32)
        return function("cvt.f32.f16")(np.ascontiguousarray(low.astype(np.uint16)).view(np.float16))

    return lambda *words: found(*(number(word) for word in words))


# -- conversions --------------------------------------------------------------------------------------

_INTEGER_KINDS = ("U8", "S8", "U16", "S16", "U32", "S32", "U64", "S64")
_FLOAT_KINDS = {"F16": "f16", "F32": "f32", "F64": "f64", "BF16": "bf16"}
_TO_INTEGER = {"TRUNC": "rzi", "FLOOR": "rmi", "CEIL": "rpi"}


def _f2i(code: Code, i: MachineInstruction) -> Part:
    target, value = i.operands
    to = next((m for m in i.modifiers if m in _INTEGER_KINDS), "S32").lower()
    source = next((_FLOAT_KINDS[m] for m in i.modifiers if m in _FLOAT_KINDS), "f32")
    mode = next((_TO_INTEGER[m] for m in i.modifiers if m in _TO_INTEGER), "rni")
    flush = ".ftz" if "FTZ" in i.modifiers and source == "f32" else ""
    like = f"cvt.{mode}{flush}.{to}.{source}"
    return code.apply(i, function(like), [(target, to)], [(value, source)], like)


def _i2f(code: Code, i: MachineInstruction) -> Part:
    target, value = i.operands
    source = next((m for m in i.modifiers if m in _INTEGER_KINDS), "S32").lower()
    to = next((_FLOAT_KINDS[m] for m in i.modifiers if m in _FLOAT_KINDS), "f32")
    like = f"cvt.{_mode(i)}.{to}.{source}"
    if getattr(value, "suffixes", ()) and source in ("u8", "u16"):
        source = "u32"
    return code.apply(i, function(like), [(target, to)], [(value, source)], like)


def _f2f(code: Code, i: MachineInstruction) -> Part:
    target, value = i.operands
    to, source = [_FLOAT_KINDS[m] for m in i.modifiers if m in _FLOAT_KINDS]
    widths = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
    flush = ".ftz" if "FTZ" in i.modifiers else ""
    like = f"cvt.{_mode(i)}{flush}.{to}.{source}" if widths[to] < widths[source] else f"cvt{flush}.{to}.{source}"
    return code.apply(i, function(like), [(target, to)], [(value, source)], like)


def _frnd(code: Code, i: MachineInstruction) -> Part:
    target, value = i.operands
    kind = next((_FLOAT_KINDS[m] for m in i.modifiers if m in _FLOAT_KINDS), "f32")
    mode = next((_TO_INTEGER[m] for m in i.modifiers if m in _TO_INTEGER), "rni")
    like = f"cvt.{mode}{_flags(i, 'ftz')}.{kind}.{kind}"
    return code.apply(i, function(like), [(target, kind)], [(value, kind)], like)


def _f2fp(code: Code, i: MachineInstruction) -> Part:
    if "TF32" in i.modifiers:
        return _to_tf32(code, i)
    target, a, b, *rest = i.operands
    if rest or ("PACK_AB" in i.modifiers) == ("MERGE_C" in i.modifiers):
        raise Refused
    kind = "bf16x2" if "BF16" in i.modifiers else "f16x2"
    mode = "rz" if "RZ" in i.modifiers else "rn"
    like = f"cvt.{mode}{_flags(i, 'relu')}.{kind}.f32"
    if "MERGE_C" in i.modifiers:
        return code.apply(i, _merged(function(like)), [(target, "u32")], [(a, "f32"), (b, "u32")], like)
    return code.apply(i, function(like), [(target, kind)], [(a, "f32"), (b, "f32")], like)


def _merged(pack: Function) -> Function:
    """One number is converted to the lower half; the lower half of the other register comes above it."""
    return lambda a, c: np.asarray(pack(np.zeros_like(a), a)) | np.asarray(c) << np.uint32(16)


def _to_tf32(code: Code, i: MachineInstruction) -> Part:
    target, value = i.operands
    if set(i.modifiers) - {"TF32", "F32", "PACK_B", "RZ", "RELU"}:
        raise Refused
    like = f"cvt.{'rz' if 'RZ' in i.modifiers else 'rn'}{_flags(i, 'relu')}.tf32.f32"
    return code.apply(i, function(like), [(target, "u32")], [(value, "f32")], like)


_SETP = f"{_COMPARED} T {' '.join(COMBINE)} FTZ"
_FROM = " ".join(_INTEGER_KINDS)
RECORDS = (
    Opcode("FADD", _arithmetic("add", "f32"), f"FTZ SAT {_ROUNDING}"),
    Opcode("FMUL", _arithmetic("mul", "f32"), f"FTZ SAT {_ROUNDING}"),
    Opcode("FFMA", _arithmetic("fma", "f32"), f"FTZ SAT {_ROUNDING}"),
    Opcode("FMNMX", _minmax("f32"), "FTZ NAN"),
    Opcode("FSETP", _setp("f32"), _SETP),
    Opcode("FSET", _fset, f"{_SETP} BF"),
    Opcode("FCHK", _fchk, "", "DIVIDE"),
    Opcode("MUFU", _mufu, f"{' '.join(_SFU)} RCP64H RSQ64H"),
    Opcode("DADD", _arithmetic("add", "f64"), _ROUNDING),
    Opcode("DMUL", _arithmetic("mul", "f64"), _ROUNDING),
    Opcode("DFMA", _arithmetic("fma", "f64"), _ROUNDING),
    Opcode("DSETP", _setp("f64"), _SETP),
    Opcode("HADD2", _halves("add"), "F32 BF16_V2 FTZ SAT RELU"),
    Opcode("HMUL2", _halves("mul"), "BF16_V2 FTZ SAT RELU"),
    Opcode("HFMA2", _halves("fma"), "BF16_V2 FTZ SAT RELU", "MMA"),
    Opcode("HMNMX2", _pair_minmax, "BF16_V2 NAN"),
    Opcode("HSETP2", _hsetp2, f"{_COMPARED} {' '.join(COMBINE)} BF16_V2"),
    Opcode("F2I F2IP", _f2i, f"{_FROM} F16 F32 F64 FTZ TRUNC FLOOR CEIL", "NTZ"),
    Opcode("I2F", _i2f, f"{_FROM} F16 F32 F64 {_ROUNDING}"),
    Opcode("I2FP", _i2f, f"{_FROM} F32 {_ROUNDING}"),
    Opcode("F2F", _f2f, f"F16 F32 F64 BF16 FTZ {_ROUNDING}"),
    Opcode("FRND", _frnd, "F16 F32 F64 FTZ TRUNC FLOOR CEIL"),
    Opcode("F2FP", _f2fp, "F16 BF16 TF32 PACK_AB PACK_B MERGE_C RELU RZ", "F32"),
)  # fmt: skip
