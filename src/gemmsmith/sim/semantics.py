"""What each PTX instruction computes: the living definition, one short function an instruction.

``semantics(instruction)`` returns a function over NumPy arrays (one element a lane) with the types of its
result and arguments. Anything not in the tables raises ``UnknownInstructionError``: the simulator never
guesses. Memory, control flow and data movement between spaces are in the lowering; here is arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import UnknownInstructionError
from gemmsmith.sim import conversions, integers, rounding
from gemmsmith.sim.ptx import Instruction

Array = NDArray[Any]
Function = Callable[..., Any]

NUMPY: dict[str, np.dtype[Any]] = {
    "pred": np.dtype(bool),
    "b8": np.dtype(np.uint8), "u8": np.dtype(np.uint8), "s8": np.dtype(np.int8),
    "b16": np.dtype(np.uint16), "u16": np.dtype(np.uint16), "s16": np.dtype(np.int16),
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "b32": np.dtype(np.uint32), "u32": np.dtype(np.uint32), "s32": np.dtype(np.int32), "f32": np.dtype(np.float32),
    "f16x2": np.dtype(np.uint32), "bf16x2": np.dtype(np.uint32),
    "b64": np.dtype(np.uint64), "u64": np.dtype(np.uint64), "s64": np.dtype(np.int64), "f64": np.dtype(np.float64),
}  # fmt: skip


@dataclass(frozen=True)
class Semantics:
    """A lane-wise function, the PTX type of its result and of each argument."""

    function: Function
    result: str
    arguments: tuple[str, ...]


def unknown(instruction: Instruction, register: str = "") -> UnknownInstructionError:
    """The error for an instruction the simulator does not know, or for the special register that it reads."""
    name = ".".join((instruction.opcode, *instruction.modifiers))
    what = f"special register {register!r} of {name!r}" if register else f"PTX instruction {name!r}"
    return UnknownInstructionError(
        f"the simulator does not know the {what} ({instruction.text}; {instruction.where})",
        "run this kernel on a GPU with --device gpu, or report the instruction",
    )


def semantics(instruction: Instruction, ring: bool = False) -> Semantics:
    """The meaning of an arithmetic instruction; ``ring`` takes fp32 +, −, ×, fma modulo 2³²."""
    if instruction.opcode in ("setp", "set"):
        return _compare(instruction)
    if instruction.opcode == "cvt":
        return _convert(instruction)
    kind = instruction.type
    modes = frozenset(instruction.modifiers[:-1])
    if ring and kind == "f32" and instruction.opcode in _RING and modes <= {"rn"}:
        return Semantics(_RING[instruction.opcode], "f32", ("f32",) * _ARITY[instruction.opcode])
    found = _table(instruction.opcode, modes, kind)
    if found is None:
        raise unknown(instruction)
    return found


def _table(opcode: str, modes: frozenset[str], kind: str) -> Semantics | None:
    function = _FLOAT.get((opcode, kind))
    if function is not None and modes <= {"rn"}:
        return Semantics(function, kind, (kind,) * _ARITY[opcode])
    if kind == "pred":
        function = _PREDICATE.get(opcode)
        return Semantics(function, kind, (kind,) * _ARITY[opcode]) if function and not modes else None
    if kind in _INTEGERS:
        return _integer(opcode, modes, kind)
    if kind in ("f32", "f64") and opcode == "selp" and not modes:
        return Semantics(integers.select, kind, (kind, kind, "pred"))
    return None


_INTEGERS = ("b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64")
_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def _integer(opcode: str, modes: frozenset[str], kind: str) -> Semantics | None:
    if opcode in ("mul", "mad"):
        return _multiply(opcode, modes, kind)
    if opcode in ("shf",) and kind == "b32" and modes <= {"l", "r", "wrap", "clamp"}:
        function = integers.funnel("l" in modes, "wrap" in modes)
        return Semantics(function, kind, ("b32", "b32", "u32"))
    if opcode == "prmt" and kind == "b32" and not modes:
        return Semantics(integers.permute_bytes, kind, (kind,) * 3)
    if opcode == "lop3" and kind == "b32" and not modes:
        return Semantics(integers.lop3, kind, (kind,) * 4)
    if opcode == "bfi" and kind in ("b32", "b64") and not modes:
        return Semantics(integers.bit_field_insert, kind, (kind, kind, "u32", "u32"))
    if opcode == "bfe" and kind in ("u32", "s32", "u64", "s64") and not modes:
        return Semantics(integers.bit_field_extract, kind, (kind, "u32", "u32"))
    if opcode in ("shl", "shr") and not modes:
        return Semantics(integers.SHIFTS[opcode], kind, (kind, "u32"))
    if opcode == "selp" and not modes:
        return Semantics(integers.select, kind, (kind, kind, "pred"))
    if opcode in ("popc", "clz") and kind in ("b32", "b64") and not modes:
        return Semantics(integers.COUNTS[opcode], "u32", (kind,))
    if opcode not in integers.PLAIN or modes:
        return None
    return Semantics(integers.PLAIN[opcode], kind, (kind,) * _ARITY[opcode])


def _multiply(opcode: str, modes: frozenset[str], kind: str) -> Semantics | None:
    if kind.startswith("b"):
        return None
    extra = 1 if opcode == "mad" else 0
    if modes == {"lo"}:
        function: Function = integers.mad_low if extra else integers.multiply_low
        return Semantics(function, kind, (kind,) * (2 + extra))
    if modes == {"hi"}:
        function = integers.mad_high if extra else integers.multiply_high
        return Semantics(function, kind, (kind,) * (2 + extra))
    if modes == {"wide"} and kind in _WIDER:
        wide = _WIDER[kind]
        function = integers.mad_wide(NUMPY[wide]) if extra else integers.multiply_wide(NUMPY[wide])
        return Semantics(function, wide, (kind, kind, wide)[: 2 + extra])
    return None


_ARITY = {
    "mov": 1, "neg": 1, "abs": 1, "not": 1, "cnot": 1, "brev": 1, "sqrt": 1, "rcp": 1,
    "add": 2, "sub": 2, "mul": 2, "div": 2, "rem": 2, "min": 2, "max": 2, "and": 2, "or": 2, "xor": 2,
    "fma": 3, "mad": 3, "sad": 3,
}  # fmt: skip

_PREDICATE: dict[str, Function] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "mov": np.copy,
}

_FLOAT: dict[tuple[str, str], Function] = {
    ("mov", "f32"): np.copy,
    ("mov", "f64"): np.copy,
    ("add", "f32"): rounding.add32,
    ("sub", "f32"): rounding.sub32,
    ("mul", "f32"): rounding.mul32,
    ("fma", "f32"): rounding.fma32,
    ("mad", "f32"): rounding.fma32,
    ("div", "f32"): rounding.div32,
    ("rcp", "f32"): lambda a: rounding.div32(np.ones_like(a), a),
    ("sqrt", "f32"): lambda a: rounding.canonical32(np.sqrt(a)),
    ("neg", "f32"): lambda a: rounding.canonical32(np.negative(a)),
    ("abs", "f32"): lambda a: rounding.canonical32(np.abs(a)),
    ("min", "f32"): lambda a, b: rounding.canonical32(integers.float_min(a, b)),
    ("max", "f32"): lambda a, b: rounding.canonical32(integers.float_max(a, b)),
    ("add", "f64"): rounding.arithmetic64(np.add),
    ("sub", "f64"): rounding.arithmetic64(np.subtract),
    ("mul", "f64"): rounding.arithmetic64(np.multiply),
    ("div", "f64"): rounding.arithmetic64(np.divide, prefer=0),
    ("neg", "f64"): rounding.negate64,
    ("abs", "f64"): rounding.absolute64,
    ("add", "f16"): lambda a, b: rounding.to_half(a.astype(np.float64) + b),
    ("sub", "f16"): lambda a, b: rounding.to_half(a.astype(np.float64) - b),
    ("mul", "f16"): lambda a, b: rounding.to_half(a.astype(np.float64) * b),
    ("fma", "f16"): lambda a, b, c: rounding.to_half(
        rounding.round_to_odd_sum(a.astype(np.float64) * b, np.asarray(c, dtype=np.float64))
    ),
    ("fma", "bf16"): lambda a, b, c: rounding.to_bfloat(
        rounding.round_to_odd_sum(a.astype(np.float64) * b.astype(np.float64), np.asarray(c).astype(np.float64))
    ),
}


def _words(x: Any) -> Array:
    return np.asarray(x).view(np.uint32)


_RING: dict[str, Function] = {
    "add": lambda a, b: (_words(a) + _words(b)).view(np.float32),
    "sub": lambda a, b: (_words(a) - _words(b)).view(np.float32),
    "mul": lambda a, b: (_words(a) * _words(b)).view(np.float32),
    "fma": lambda a, b, c: (_words(a) * _words(b) + _words(c)).view(np.float32),
    "mad": lambda a, b, c: (_words(a) * _words(b) + _words(c)).view(np.float32),
}

_ORDERED: dict[str, Function] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_COMPARED = (*_INTEGERS, "f16", "f32", "f64")
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _compare(instruction: Instruction) -> Semantics:
    """setp.CMP[.BOOL].TYPE: a comparison, optionally combined with a predicate."""
    comparison, *rest = instruction.modifiers
    kind = instruction.type
    combine = rest[0] if len(rest) == 2 and rest[0] in ("and", "or", "xor") else ""
    if instruction.opcode != "setp" or kind not in _COMPARED or len(rest) != (2 if combine else 1):
        raise unknown(instruction)
    function = _float_comparison(comparison) if kind in ("f32", "f64", "f16") else _integer_comparison(comparison, kind)
    if function is None:
        raise unknown(instruction)
    if not combine:
        return Semantics(function, "pred", (kind, kind))
    both, plain = _PREDICATE[combine], function
    return Semantics(lambda a, b, p: both(plain(a, b), p), "pred", (kind, kind, "pred"))


def _integer_comparison(name: str, kind: str) -> Function | None:
    if name in _UNSIGNED:
        return _ORDERED[_UNSIGNED[name]] if kind.startswith("u") else None
    if kind.startswith("b") and name not in ("eq", "ne"):
        return None
    return _ORDERED.get(name)


def _float_comparison(name: str) -> Function | None:
    """Ordered comparisons are false with a NaN; those that end in 'u' are true with one."""
    if name == "num":
        return lambda a, b: (a == a) & (b == b)
    if name == "nan":
        return lambda a, b: (a != a) | (b != b)
    if name == "ne":
        return lambda a, b: (a < b) | (a > b)
    if name in _ORDERED:
        return _ORDERED[name]
    if name.endswith("u") and (plain := _ORDERED.get(name[:-1])) is not None:
        return lambda a, b: plain(a, b) | (a != a) | (b != b)
    return None


def _convert(instruction: Instruction) -> Semantics:
    *modes, to, source = instruction.modifiers
    function = conversions.conversion(frozenset(modes), to, source)
    if function is None:
        raise unknown(instruction)
    arguments = (source, source) if to in ("f16x2", "bf16x2") else (source,)
    return Semantics(function, "b32" if to == "tf32" else to, arguments)
