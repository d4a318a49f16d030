"""The second list of instruction forms: rounding modes, .ftz, .sat, packed halves, conversions, atomics and the rest.

Each form is recorded on a GPU with fewer cases than those of ``instruction_forms``; there are many more forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from instruction_forms import BYTES_AND_INTEGERS, FLOAT_COMPARISONS, Form, _form

ROUNDINGS = ("rn", "rz", "rm", "rp")
TO_INTEGER = ("rni", "rzi", "rmi", "rpi")
HALVES = ("f16", "f16x2", "bf16", "bf16x2")
SM90 = "sm_90"


def scalar(name: str, result: str, *arguments: str) -> Form:
    return _form(name, result, *arguments, target=SM90)


def _named(name: str, template: str, results: tuple[str, ...], *arguments: str) -> Form:
    """A form of several instructions, or with operands in an order of its own."""
    return Form(name, template, results, arguments, SM90)


def _joined(*words: str) -> str:
    return ".".join(word for word in words if word)


def _single() -> Iterator[Form]:
    for name, mode, ftz, sat in product(("add", "sub", "mul"), ROUNDINGS, ("", "ftz"), ("", "sat")):
        if mode != "rn" or ftz or sat:
            yield scalar(_joined(name, mode, ftz, sat, "f32"), "f32", "f32", "f32")
    for mode, ftz, sat in product(ROUNDINGS, ("", "ftz"), ("", "sat")):
        if mode != "rn" or ftz or sat:
            yield scalar(_joined("fma", mode, ftz, sat, "f32"), "f32", "f32", "f32", "f32")
    for mode, ftz in product(ROUNDINGS, ("", "ftz")):
        if mode == "rn" and not ftz:
            continue
        yield scalar(_joined("div", mode, ftz, "f32"), "f32", "f32", "f32")
        yield scalar(_joined("rcp", mode, ftz, "f32"), "f32", "f32")
        yield scalar(_joined("sqrt", mode, ftz, "f32"), "f32", "f32")
    for name in ("abs", "neg"):
        yield scalar(f"{name}.ftz.f32", "f32", "f32")
    for name, ftz, nan, signs in product(("min", "max"), ("", "ftz"), ("", "NaN"), ("", "xorsign.abs")):
        if ftz or nan or signs:
            yield scalar(_joined(name, ftz, nan, signs, "f32"), "f32", "f32", "f32")
    for kind in ("f32", "f64"):
        yield scalar(f"copysign.{kind}", kind, kind, kind)
        for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield scalar(f"testp.{test}.{kind}", "pred", kind)


def _approximate() -> Iterator[Form]:
    for ftz in ("", "ftz"):
        for name in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"):
            yield scalar(_joined(name, "approx", ftz, "f32"), "f32", "f32")
        for name in ("div.approx", "div.full"):
            yield scalar(_joined(name, ftz, "f32"), "f32", "f32", "f32")
        yield scalar(_joined("rsqrt.approx", ftz, "f64"), "f64", "f64")
    yield scalar("tanh.approx.f32", "f32", "f32")
    yield scalar("rcp.approx.ftz.f64", "f64", "f64")
    for kind in HALVES:
        yield scalar(f"tanh.approx.{kind}", kind, kind)
        yield scalar(f"ex2.approx.ftz.{kind}" if kind.startswith("b") else f"ex2.approx.{kind}", kind, kind)


def _double() -> Iterator[Form]:
    for mode in ROUNDINGS:
        for name in ("add", "sub", "mul", "div"):
            if mode != "rn":
                yield scalar(f"{name}.{mode}.f64", "f64", "f64", "f64")
        yield scalar(f"fma.{mode}.f64", "f64", "f64", "f64", "f64")
        yield scalar(f"rcp.{mode}.f64", "f64", "f64")
        yield scalar(f"sqrt.{mode}.f64", "f64", "f64")
    for name in ("min", "max"):
        yield scalar(f"{name}.f64", "f64", "f64", "f64")


def _halves() -> Iterator[Form]:
    for kind in HALVES:
        exact = kind.startswith("f")
        flushes = ("", "ftz") if exact else ("",)
        for name, ftz, sat in product(("add", "sub", "mul"), flushes, ("", "sat") if exact else ("",)):
            if kind != "f16" or ftz or sat:
                yield scalar(_joined(name, ftz, sat, kind), kind, kind, kind)
            yield (
                scalar(_joined(name, "rn", ftz, sat, kind), kind, kind, kind)
                if ftz or sat or kind != "f16"
                else (scalar(_joined(name, "rn", "sat", "ftz", kind), kind, kind, kind))
            )
        for ftz, end in product(flushes, ("", "sat", "relu") if exact else ("", "relu")):
            if kind not in ("f16", "bf16") or ftz or end:
                yield scalar(_joined("fma.rn", ftz, end, kind), kind, kind, kind, kind)
        for name, ftz in product(("neg", "abs"), flushes):
            yield scalar(_joined(name, ftz, kind), kind, kind)
        for name, ftz, nan, signs in product(("min", "max"), flushes, ("", "NaN"), ("", "xorsign.abs")):
            yield scalar(_joined(name, ftz, nan, signs, kind), kind, kind, kind)
    for comparison in FLOAT_COMPARISONS:
        yield scalar(f"setp.{comparison}.bf16", "pred", "bf16", "bf16")
        for kind in ("f16x2", "bf16x2"):
            yield _named(f"setp.{comparison}.{kind}", f"setp.{comparison}.{kind} {{d0}}|{{d1}}, {{a}}, {{b}};",
                         ("pred", "pred"), kind, kind)  # fmt: skip
    for kind in ("f16", "f32"):
        yield scalar(f"setp.lt.ftz.{kind}", "pred", kind, kind)
        yield scalar(f"setp.equ.and.ftz.{kind}", "pred", kind, kind, "pred")
    yield _named("setp.lt.and.f16x2", "setp.lt.and.f16x2 {d0}|{d1}, {a}, {b}, {c};", ("pred", "pred"), "f16x2", "f16x2",
                 "pred")  # fmt: skip
    for to, kind in (("f16", "f16"), ("u16", "f16"), ("f16x2", "f16x2"), ("u32", "f16x2"), ("bf16", "bf16"),
                     ("u16", "bf16"), ("bf16x2", "bf16x2"), ("u32", "bf16x2")):  # fmt: skip
        for comparison in ("eq", "ltu", "nan"):
            yield scalar(f"set.{comparison}.{to}.{kind}", to, kind, kind)


def _between_floats() -> Iterator[Form]:
    narrow = {"f64": "f64:single", "f32": "f32:narrow"}
    for mode in ROUNDINGS:
        for ftz, sat in product(("", "ftz"), ("", "sat")):
            if mode != "rn" or ftz or sat:
                yield scalar(_joined("cvt", mode, ftz, sat, "f32.f64"), "f32", "f64:single")
            if not ftz:
                for source in ("f32", "f64"):
                    if (mode, sat, source) != ("rn", "", "f32"):
                        yield scalar(_joined("cvt", mode, sat, "f16", source), "f16", narrow[source])
    for mode in ROUNDINGS:
        for source in ("f16", "f32", "f64"):
            if (mode, source) != ("rn", "f32"):
                yield scalar(f"cvt.{mode}.bf16.{source}", "bf16", narrow.get(source, source))
        yield scalar(f"cvt.{mode}.f16.bf16", "f16", "bf16")
    yield scalar("cvt.f64.bf16", "f64", "bf16")
    for source in ("f16", "f32"):
        yield scalar(f"cvt.ftz.f32.{source}", "f32", source)
        yield scalar(f"cvt.sat.f32.{source}", "f32", source)
        yield scalar(f"cvt.ftz.sat.f32.{source}", "f32", source)
        yield scalar(f"cvt.sat.f64.{source}", "f64", source)
    yield scalar("cvt.ftz.f64.f32", "f64", "f32")
    yield scalar("cvt.rn.ftz.f16.f32", "f16", "f32:narrow")
    for kind in ("f16", "f32", "f64"):
        for mode in TO_INTEGER:
            yield scalar(f"cvt.{mode}.{kind}.{kind}", kind, kind if kind == "f16" else f"{kind}:toint{kind[1:]}")
    yield scalar("cvt.rni.ftz.f32.f32", "f32", "f32")
    yield scalar("cvt.rzi.sat.f32.f32", "f32", "f32")
    yield scalar("cvt.sat.f16.f16", "f16", "f16")
    yield scalar("cvt.sat.f64.f64", "f64", "f64")
    for kind, mode, relu in product(("f16", "bf16"), ("rn", "rz"), ("", "relu")):
        if mode == "rz" or relu:
            yield scalar(_joined("cvt", mode, relu, f"{kind}x2.f32"), f"{kind}x2", "f32:narrow", "f32:narrow")
        if relu:
            yield scalar(_joined("cvt", mode, relu, kind, "f32"), kind, "f32:narrow")
    for mode in ("rn.relu", "rz", "rz.relu"):
        yield scalar(f"cvt.{mode}.tf32.f32", "b32", "f32:narrow")
    for kind in ("e4m3x2", "e5m2x2"):
        for relu in ("", "relu"):
            yield scalar(_joined("cvt.rn.satfinite", relu, kind, "f32"), "b16", "f32:narrow", "f32:narrow")
            yield scalar(_joined("cvt.rn.satfinite", relu, kind, "f16x2"), "b16", "f16x2")
            yield scalar(_joined("cvt.rn", relu, "f16x2", kind), "f16x2", "b16")


def _between_floats_and_integers() -> Iterator[Form]:
    for kind in BYTES_AND_INTEGERS:
        for mode in TO_INTEGER:
            for source in ("f16", *(("bf16",) if kind not in ("u8", "s8") else ())):
                yield scalar(f"cvt.{mode}.{kind}.{source}", kind, source)
            if kind in ("u8", "s8", "u16", "s16"):
                for source in ("f32", "f64"):
                    yield scalar(f"cvt.{mode}.{kind}.{source}", kind, f"{source}:toint{source[1:]}")
        yield scalar(f"cvt.rni.ftz.{kind}.f32", kind, "f32:toint32")
        yield scalar(f"cvt.rpi.ftz.sat.{kind}.f32", kind, "f32:toint32")
        yield scalar(f"cvt.rzi.sat.{kind}.f64", kind, "f64:toint64")
        yield scalar(f"cvt.rmi.sat.{kind}.f16", kind, "f16")
        for mode in ROUNDINGS:
            for to in ("f16", *(("bf16",) if kind not in ("u8", "s8") else ())):
                yield scalar(f"cvt.{mode}.{to}.{kind}", to, kind)
            if mode != "rn":
                for to in ("f32", "f64"):
                    yield scalar(f"cvt.{mode}.{to}.{kind}", to, kind)
        for to in ("f16", "f32", "f64"):
            yield scalar(f"cvt.rn.sat.{to}.{kind}", to, kind)


def _integers() -> Iterator[Form]:
    for name in ("add.sat", "sub.sat", "min.relu", "max.relu"):
        yield scalar(f"{name}.s32", "s32", "s32", "s32")
    yield scalar("mad.hi.sat.s32", "s32", "s32", "s32", "s32")
    for kind in ("u16x2", "s16x2"):
        for name in ("add", "min", "max", *(("min.relu", "max.relu") if kind == "s16x2" else ())):
            yield _named(f"{name}.{kind}", f"{name}.{kind} {{d0}}, {{a}}, {{b}};", ("b32",), "b32", "b32")
    for kind, part in product(("u32", "s32"), ("lo", "hi")):
        yield scalar(f"mul24.{part}.{kind}", kind, kind, kind)
        yield scalar(f"mad24.{part}.{kind}", kind, kind, kind, kind)
    yield scalar("mad24.hi.sat.s32", "s32", "s32", "s32", "s32")
    for a, b in product(("u32", "s32"), repeat=2):
        result = "s32" if "s32" in (a, b) else "u32"
        yield scalar(f"dp4a.{a}.{b}", result, "b32", "b32", "b32")
        for part in ("lo", "hi"):
            yield scalar(f"dp2a.{part}.{a}.{b}", result, "b32", "b32", "b32")
    for kind in ("u32", "s32", "u64", "s64"):
        yield scalar(f"bfind.{kind}", "u32", kind)
        yield scalar(f"bfind.shiftamt.{kind}", "u32", kind)
    yield scalar("fns.b32", "b32", "b32", "b32:field", "s32:offset")
    for mode in ("clamp", "wrap"):
        yield scalar(f"bmsk.{mode}.b32", "b32", "b32:field", "b32:field")
        for kind in ("u32", "s32"):
            yield scalar(f"szext.{mode}.{kind}", kind, kind, "u32:field")
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield scalar(f"prmt.b32.{mode}", "b32", "b32", "b32", "b32")
    for table, combine in product((0x96, 0x3F, 0x80), ("and", "or")):
        yield _named(f"lop3.{combine}.b32 {table:#x}", f"lop3.{combine}.b32 {{d0}}|{{d1}}, {{a}}, {{b}}, {{c}}, "
                     f"{table:#x}, {{e}};", ("b32", "pred"), "b32", "b32", "b32", "pred")  # fmt: skip
    for to in ("u8", "s8", "u16", "s16"):
        if to.endswith("8"):
            yield scalar(f"cvt.pack.sat.{to}.s32.b32", "b32", "s32", "s32", "b32")
        else:
            yield scalar(f"cvt.pack.sat.{to}.s32", "b32", "s32", "s32")


def _carries() -> Iterator[Form]:
    for kind, result in (("u32", "b32"), ("s32", "b32"), ("u64", "b64"), ("s64", "b64")):
        for name in ("add", "sub"):
            text = (f"{name}.cc.{kind} {{d0}}, {{a}}, {{b}}; {name}c.cc.{kind} {{d1}}, {{c}}, {{e}}; "
                    f"{name}c.{kind} {{d2}}, {{a}}, {{c}};")  # fmt: skip
            yield _named(f"{name}c.{kind} after {name}.cc", text, (result,) * 3, *(result,) * 4)
        for part in ("lo", "hi"):
            text = (f"mad.{part}.cc.{kind} {{d0}}, {{a}}, {{b}}, {{c}}; "
                    f"madc.{part}.cc.{kind} {{d1}}, {{b}}, {{c}}, {{e}}; "
                    f"madc.{part}.{kind} {{d2}}, {{a}}, {{e}}, {{c}};")  # fmt: skip
            yield _named(f"madc.{part}.{kind} after mad.cc", text, (result,) * 3, *(result,) * 4)


def _selection() -> Iterator[Form]:
    for kind in ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"):
        yield scalar(f"slct.{kind}.s32", kind, kind, kind, "s32")
        yield scalar(f"slct.{kind}.f32", kind, kind, kind, "f32")
    yield scalar("slct.ftz.u32.f32", "u32", "u32", "u32", "f32")
    for to in ("u32", "s32", "f32"):
        for comparison, kind in (("lt", "s16"), ("ge", "s32"), ("ne", "s64"), ("lo", "u16"), ("hs", "u32"),
                                 ("ls", "u64"), ("eq", "b16"), ("ne", "b32"), ("eq", "b64"), ("gtu", "f32"),
                                 ("nan", "f64"), ("le", "f16"), ("num", "bf16")):  # fmt: skip
            if kind in ("f16", "bf16") and to == "f32":
                continue
            yield scalar(f"set.{comparison}.{to}.{kind}", to, kind, kind)
        yield scalar(f"set.lt.and.{to}.s32", to, "s32", "s32", "pred")
        yield scalar(f"set.eq.xor.ftz.{to}.f32", to, "f32", "f32", "pred")
    for comparison, kind in (("lt", "s32"), ("hi", "u64"), ("eq", "b16"), ("leu", "f32"), ("nan", "f64")):
        yield _named(f"setp.{comparison}.{kind} both", f"setp.{comparison}.{kind} {{d0}}|{{d1}}, {{a}}, {{b}};",
                     ("pred", "pred"), kind, kind)  # fmt: skip
        for combine in ("and", "or", "xor"):
            yield _named(f"setp.{comparison}.{combine}.{kind} both",
                         f"setp.{comparison}.{combine}.{kind} {{d0}}|{{d1}}, {{a}}, {{b}}, !{{c}};",
                         ("pred", "pred"), kind, kind, "pred")  # fmt: skip


_UPDATES = (
    ("add", "u32 s32 u64 f32 f64"), ("min", "u32 s32 u64 s64"), ("max", "u32 s32 u64 s64"), ("inc", "u32"),
    ("dec", "u32"), ("exch", "b32 b64"), ("and", "b32 b64"), ("or", "b32 b64"), ("xor", "b32 b64"),
    ("add.noftz", "f16 f16x2 bf16 bf16x2"),
)  # fmt: skip
_ROOM = ".shared .align 16 .b8 room[2048]; .reg .b32 at; mov.u32 at, %tid.x; shl.b32 at, at, 4;"


def _bits(kind: str) -> str:
    return "b32" if kind.endswith("x2") else f"b{kind.lstrip('usbf')}"


def _atomics() -> Iterator[Form]:
    """d0 is what the instruction returns, d1 the memory afterwards, which held a."""
    for name, kinds in _UPDATES:
        for kind in kinds.split():
            raw = _bits(kind)
            for space, at in (("global", "address_d1"), ("shared", "at")):
                prepare = f"st.{space}.{raw} [{at}], {{a}};"
                after = f"ld.{space}.{raw} {{d1}}, [{at}];"
                room = _ROOM if space == "shared" else ""
                text = f"{room} {prepare} atom.{space}.{name}.{kind} {{d0}}, [{at}], {{b}}; {after}"
                yield _named(f"atom.{space}.{name}.{kind}", "{{ " + text + " }}", (raw, raw), kind, kind)
                if name != "exch":
                    text = f"{room} {prepare} red.{space}.{name}.{kind} [{at}], {{b}}; mov.{raw} {{d0}}, {{a}}; {after}"
                    yield _named(f"red.{space}.{name}.{kind}", "{{ " + text + " }}", (raw, raw), kind, kind)
    for kind in ("b16", "b32", "b64"):
        for space, at in (("global", "address_d1"), ("shared", "at")):
            room = _ROOM if space == "shared" else ""
            text = (f"{room} st.{space}.{kind} [{at}], {{a}}; atom.{space}.cas.{kind} {{d0}}, [{at}], {{b}}, {{c}}; "
                    f"ld.{space}.{kind} {{d1}}, [{at}];")  # fmt: skip
            yield _named(f"atom.{space}.cas.{kind}", "{{ " + text + " }}", (kind, kind), kind, kind, kind)


def _vectors() -> Iterator[Form]:
    """Updates of two elements at once: the memory holds a and b, and c and e are added."""
    for name in ("atom", "red"):
        for kind, words in (("f32", "add.v2.f32"), ("f16x2", "add.noftz.v2.f16x2"), ("bf16x2", "add.noftz.v2.bf16x2")):
            old = "{{{{ {d0}, {d1} }}}}, " if name == "atom" else ""
            copy = "" if name == "atom" else "mov.b32 {d0}, {a}; mov.b32 {d1}, {b};"
            text = ("st.global.v2.b32 [address_d2], {{{{ {a}, {b} }}}}; " + f"{name}.global.{words} {old}[address_d2], "
                    + "{{{{ {c}, {e} }}}}; " + copy + " ld.global.b64 {d2}, [address_d2];")  # fmt: skip
            text = text.replace("{{{{", "{{").replace("}}}}", "}}")
            yield _named(f"{name}.global.{words}", text, ("b32", "b32", "b64"), *(kind,) * 4)


def _more() -> Iterator[Form]:
    """Forms that were added after the first recording."""
    for to, comparison, kind in (("u32", "lo", "u16"), ("s32", "hs", "u32"), ("f32", "ls", "u64"), ("u32", "eq", "b16"),
                                 ("s32", "ne", "b32"), ("f32", "eq", "b64"), ("u32", "gt", "s16")):  # fmt: skip
        for combine in ("and", "or", "xor"):
            yield scalar(f"set.{comparison}.{combine}.{to}.{kind}", to, kind, kind, "pred")
    for mode in TO_INTEGER:
        yield scalar(f"cvt.{mode}.bf16.bf16", "bf16", "bf16")
    for kind, add in product(("u32", "s32"), ("", "add")):
        yield scalar(_joined("vabsdiff4.u32", kind, kind, add), "b32", "b32", "b32", "b32")


def _literal_floats() -> Iterator[Form]:
    """Decimal floating-point literals, and an fp64 literal where fp32 is expected."""
    yield _named("add.f32 with a decimal literal", "add.f32 {d0}, {a}, 1.5;", ("f32",), "f32")
    yield _named("add.rn.f64 with a decimal literal", "add.rn.f64 {d0}, {a}, -2.5e-1;", ("f64",), "f64")
    yield _named("mov.b32 of a literal", "mov.f32 {d0}, 0d3FF8000000000000; add.f32 {d0}, {d0}, {a};", ("f32",), "f32")


GROUPS = (
    _single, _approximate, _double, _halves, _between_floats, _between_floats_and_integers, _integers, _carries,
    _selection, _atomics, _literal_floats,
)  # fmt: skip


LATER = (_vectors, _more)


@cache
def scalar_forms() -> tuple[Form, ...]:
    """Every form of the second list, each name once."""
    found = tuple(form for group in GROUPS for form in group())
    names = [form.name for form in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    assert not twice, f"two forms have one name: {twice}"
    return found


@cache
def scalar_form_named(name: str) -> Form:
    return next(form for form in scalar_forms() if form.name == name)
