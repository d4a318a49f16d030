"""Every instruction form that the simulator's tests exercise and that is recorded on a GPU.

A form is one PTX instruction with the types of its results and arguments. An argument may name the pool its values
come from ("u32:shift"); otherwise its type decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
SIGNED = ("s16", "s32", "s64")
UNSIGNED = ("u16", "u32", "u64")
BITS = ("b16", "b32", "b64")
BYTES_AND_INTEGERS = ("u8", "s8", *INTEGERS)
WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
FLOAT_COMPARISONS = (*ORDERED, *(f"{name}u" for name in ORDERED), "num", "nan")
LOP3_TABLES = (0x00, 0xFF, 0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x1B, 0xD8)


@dataclass(frozen=True)
class Form:
    """One instruction: its name, its text with {d0}, {d1}, {a}, {b}, {c}, {e} for operands, and its types."""

    name: str
    template: str
    results: tuple[str, ...]
    arguments: tuple[str, ...]
    target: str = "sm_80"

    @property
    def types(self) -> tuple[str, ...]:
        """The arguments' PTX types, without the names of pools."""
        return tuple(argument.split(":")[0] for argument in self.arguments)


def _form(name: str, result: str, *arguments: str, target: str = "sm_80") -> Form:
    """A form whose operands are its result and its arguments in order."""
    operands = ", ".join(["{d0}", *("{" + letter + "}" for letter in "abce"[: len(arguments)])])
    return Form(name, f"{name} {operands};", (result,), arguments, target)


def _with(name: str, operands: str, result: str, *arguments: str) -> Form:
    """A form with literal operands; they become part of its name."""
    return Form(f"{name} {operands}", f"{name} {operands};", (result,), arguments)


def _integer_arithmetic() -> Iterator[Form]:
    for kind in INTEGERS:
        for name in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            yield _form(f"{name}.{kind}", kind, kind, kind)
        for name in ("mad.lo", "mad.hi", "sad"):
            yield _form(f"{name}.{kind}", kind, kind, kind, kind)
    for kind, wide in WIDER.items():
        yield _form(f"mul.wide.{kind}", wide, kind, kind)
        yield _form(f"mad.wide.{kind}", wide, kind, kind, wide)
    for kind in SIGNED:
        yield _form(f"abs.{kind}", kind, kind)
        yield _form(f"neg.{kind}", kind, kind)


def _bits() -> Iterator[Form]:
    for kind in BITS:
        for name in ("and", "or", "xor"):
            yield _form(f"{name}.{kind}", kind, kind, kind)
        for name in ("not", "cnot"):
            yield _form(f"{name}.{kind}", kind, kind)
        yield _form(f"shl.{kind}", kind, kind, "u32:shift")
    for kind in (*BITS, *INTEGERS):
        yield _form(f"shr.{kind}", kind, kind, "u32:shift")
    for side in "lr":
        for mode in ("wrap", "clamp"):
            yield _form(f"shf.{side}.{mode}.b32", "b32", "b32", "b32", "u32:shift")
    for kind in ("u32", "s32", "u64", "s64"):
        yield _form(f"bfe.{kind}", kind, kind, "u32:field", "u32:field")
    for kind in ("b32", "b64"):
        yield _form(f"bfi.{kind}", kind, kind, kind, "u32:field", "u32:field")
        yield _form(f"popc.{kind}", "u32", kind)
        yield _form(f"clz.{kind}", "u32", kind)
        yield _form(f"brev.{kind}", kind, kind)
    yield _form("prmt.b32", "b32", "b32", "b32", "b32")
    for table in LOP3_TABLES:
        yield _with("lop3.b32", f"{{d0}}, {{a}}, {{b}}, {{c}}, {table:#x}", "b32", "b32", "b32", "b32")


def _selection() -> Iterator[Form]:
    for kind in (*BITS, *INTEGERS, "f32", "f64"):
        yield _form(f"selp.{kind}", kind, kind, kind, "pred")
    for kind in INTEGERS:
        for comparison in ORDERED:
            yield _form(f"setp.{comparison}.{kind}", "pred", kind, kind)
    for kind in UNSIGNED:
        for comparison in ("lo", "ls", "hi", "hs"):
            yield _form(f"setp.{comparison}.{kind}", "pred", kind, kind)
    for kind in BITS:
        for comparison in ("eq", "ne"):
            yield _form(f"setp.{comparison}.{kind}", "pred", kind, kind)
    for kind in ("f16", "f32", "f64"):
        for comparison in FLOAT_COMPARISONS:
            yield _form(f"setp.{comparison}.{kind}", "pred", kind, kind)
    for comparison, kind in (("lt", "s32"), ("hs", "u32"), ("ne", "u64"), ("eq", "b16"), ("gtu", "f32"), ("le", "f64")):
        for combine in ("and", "or", "xor"):
            yield _form(f"setp.{comparison}.{combine}.{kind}", "pred", kind, kind, "pred")
    for name in ("and", "or", "xor"):
        yield _form(f"{name}.pred", "pred", "pred", "pred")
    for name in ("not", "mov"):
        yield _form(f"{name}.pred", "pred", "pred")


def _holds(to: str, source: str) -> bool:
    """Whether every value of one integer type is one of the other."""
    spare = int(to[1:]) - int(source[1:])
    return spare >= 0 if to[0] == source[0] else to[0] == "s" and spare > 0


def _conversions() -> Iterator[Form]:
    for to in BYTES_AND_INTEGERS:
        for source in BYTES_AND_INTEGERS:
            yield _form(f"cvt.{to}.{source}", to, source)
            if not _holds(to, source):  # PTX has no .sat where nothing can overflow
                yield _form(f"cvt.sat.{to}.{source}", to, source)
        for kind in ("f32", "f64"):
            yield _form(f"cvt.rn.{kind}.{to}", kind, to)
    for to in ("u32", "s32", "u64", "s64"):
        for source in ("f32", "f64"):
            for mode in ("rzi", "rni", "rmi", "rpi"):
                yield _form(f"cvt.{mode}.{to}.{source}", to, f"{source}:toint{source[1:]}")
    yield _form("cvt.f32.f16", "f32", "f16")
    yield _form("cvt.f32.bf16", "f32", "bf16", target="sm_90")
    yield _form("cvt.f64.f32", "f64", "f32")
    yield _form("cvt.f64.f16", "f64", "f16")
    yield _form("cvt.rn.f16.f32", "f16", "f32:narrow")
    yield _form("cvt.rn.bf16.f32", "bf16", "f32:narrow")
    yield _form("cvt.rn.f32.f64", "f32", "f64:single")
    yield _form("cvt.rn.f16x2.f32", "f16x2", "f32:narrow", "f32:narrow")
    yield _form("cvt.rn.bf16x2.f32", "bf16x2", "f32:narrow", "f32:narrow")


def _floating_point() -> Iterator[Form]:
    for name in ("add", "sub", "mul"):
        yield _form(f"{name}.f32", "f32", "f32", "f32")
    for name in ("add.rn", "sub.rn", "mul.rn", "div.rn", "min", "max"):
        yield _form(f"{name}.f32", "f32", "f32", "f32")
    for name in ("sqrt.rn", "rcp.rn", "neg", "abs", "mov"):
        yield _form(f"{name}.f32", "f32", "f32")
    for name in ("fma.rn", "mad.rn"):
        yield _form(f"{name}.f32", "f32", "f32", "f32", "f32")
    for name in ("add.rn", "sub.rn", "mul.rn", "div.rn"):
        yield _form(f"{name}.f64", "f64", "f64", "f64")
    for name in ("neg", "abs", "mov"):
        yield _form(f"{name}.f64", "f64", "f64")
    for name in ("add", "sub", "mul"):
        yield _form(f"{name}.f16", "f16", "f16", "f16")
        yield _form(f"{name}.rn.f16", "f16", "f16", "f16")
    yield _form("fma.rn.f16", "f16", "f16", "f16", "f16")
    yield _form("fma.rn.bf16", "bf16", "bf16", "bf16", "bf16")


def _moves() -> Iterator[Form]:
    for kind in (*BITS, *INTEGERS):
        yield _form(f"mov.{kind}", kind, kind)
    for kind, part, count in (("b32", "b16", 2), ("b64", "b32", 2), ("b64", "b16", 4)):
        whole = ", ".join("{" + letter + "}" for letter in "abce"[:count])
        pieces = ", ".join(f"{{d{i}}}" for i in range(count))
        yield Form(f"mov.{kind} pack {count}", f"mov.{kind} {{d0}}, {{{{{whole}}}}};", (kind,), (part,) * count)
        yield Form(f"mov.{kind} unpack {count}", f"mov.{kind} {{{{{pieces}}}}}, {{a}};", (part,) * count, (kind,))


def _literals() -> Iterator[Form]:
    """Literal operands: decimal, negative, hexadecimal, octal, and both floating-point spellings."""
    yield _with("add.s32", "{d0}, {a}, -7", "s32", "s32")
    yield _with("add.s64", "{d0}, {a}, -1", "s64", "s64")
    yield _with("and.b32", "{d0}, {a}, 0xFF00", "b32", "b32")
    yield _with("or.b32", "{d0}, {a}, 017", "b32", "b32")
    yield _with("shl.b32", "{d0}, {a}, 5", "b32", "b32")
    yield _with("shl.b64", "{d0}, {a}, 40", "b64", "b64")
    yield _with("shr.s32", "{d0}, {a}, 31", "s32", "s32")
    yield _with("mul.wide.s32", "{d0}, {a}, -12", "s64", "s32")
    yield _with("mad.lo.s32", "{d0}, {a}, 100, {b}", "s32", "s32", "s32")
    yield _with("prmt.b32", "{d0}, {a}, {b}, 0x3340", "b32", "b32", "b32")
    yield _with("prmt.b32", "{d0}, {a}, 0, 0x7770", "b32", "b32")
    yield _with("bfe.u32", "{d0}, {a}, 8, 8", "u32", "u32")
    yield _with("selp.b32", "{d0}, 1, 0, {a}", "b32", "pred")
    yield _with("setp.gt.s32", "{d0}, {a}, -1", "pred", "s32")
    yield _with("setp.lt.u32", "{d0}, {a}, 0x80000000", "pred", "u32")
    yield _with("mul.f32", "{d0}, {a}, 0f3F000000", "f32", "f32")
    yield _with("add.rn.f64", "{d0}, {a}, 0dBFF0000000000000", "f64", "f64")
    yield _with("fma.rn.f32", "{d0}, {a}, {b}, 0f00000000", "f32", "f32", "f32")
    yield _with("fma.rn.f32", "{d0}, {a}, 0f3F800001, {b}", "f32", "f32", "f32")
    yield _with("fma.rn.f32", "{d0}, 0f40000000, 0f40400000, {a}", "f32", "f32")
    yield _with("mov.f32", "{d0}, 0f7F800000", "f32", "f32")
    yield _with("mov.b32", "{d0}, -1", "b32", "b32")
    yield _with("sub.s32", "{d0}, 0, {a}", "s32", "s32")


@cache
def all_forms() -> tuple[Form, ...]:
    """Every form, each name once."""
    groups = (_integer_arithmetic, _bits, _selection, _conversions, _floating_point, _moves, _literals)
    found = tuple(form for group in groups for form in group())
    names = [form.name for form in found]
    assert len(set(names)) == len(names), "two forms have one name"
    return found


@cache
def form_named(name: str) -> Form:
    """The form of that name."""
    return next(form for form in all_forms() if form.name == name)
